"""Who holds a device and who works on it: values, cgroups, processes, bare hosts."""
