"""The agent of GPU Tailor: compares what GPU workloads asked for with what they used."""
