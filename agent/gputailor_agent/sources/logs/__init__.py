"""Logs of nvidia-smi as people have them, into samples; what is assumed is said in ``notes``.

``read_log`` reads one file, of any of these: ``nvidia-smi --query-gpu … --format=csv`` with or
without headers and units, ``nvidia-smi dmon``, ``nvidia-smi pmon``; UTF-8 or UTF-16, plain or gzip.
"""

from gputailor_agent.sources.logs.files import read_log
from gputailor_agent.sources.logs.values import COMMAND, Log, LogError, Skipped

__all__ = ["COMMAND", "Log", "LogError", "Skipped", "read_log"]
