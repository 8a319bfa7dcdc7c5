"""Where usage comes from: exporters scraped directly, archives, and logs of nvidia-smi.

Every source hands on values of ``model.usage``: a ``Page`` of counters or ``GaugeSample`` values.
A failure is a reason, never a zero.
"""
