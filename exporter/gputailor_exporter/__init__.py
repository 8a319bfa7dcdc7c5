"""The node exporter of GPU Tailor: measures GPUs and the containers that hold them.

``metrics`` is the contract. ``devices`` reads, ``sampler`` (with ``sampling``) keeps the beat,
``accounting`` adds up; ``pods`` (with ``kubelet``) and ``processes`` (with ``attribution``) say
whose it is; ``server`` (with ``serving``) answers. ``lifecycle`` is the process around them,
``cli`` its command; ``checking`` looks a node over, ``scenarios`` play one.
"""

__version__ = "0.1.0"
