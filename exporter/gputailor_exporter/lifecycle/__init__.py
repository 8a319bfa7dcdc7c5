"""The exporter as a process: its parts, start, memory, log and end."""
