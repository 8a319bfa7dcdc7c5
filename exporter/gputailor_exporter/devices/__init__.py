"""Ways to read a device, one file each: ``nvml`` (the driver) and ``simulated`` (a scenario)."""
