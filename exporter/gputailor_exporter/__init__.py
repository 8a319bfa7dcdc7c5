"""The node exporter of GPU Tailor: measures GPUs and the containers that hold them."""

__version__ = "0.1.0"
