"""Who this process is, and whether another one certainly lives no more.

A holder is named by the machine's boot, its process namespace, its process id and when it started.
Of a process in the same namespace it can be told at once that it is gone, so a restart in place
waits for nothing; of any other one nothing is known until its lease ends.
"""

import os
import socket
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_START_FIELD: Final = 19  # of /proc/PID/stat after the name: field 22, see proc_pid_stat(5)


def own_name() -> str:
    """This process as a holder."""
    pid = os.getpid()
    return f"{_place()}/{pid}/{_started(pid)}@{socket.gethostname()}"


def described(holder: str) -> str:
    """A holder in words: its process and machine."""
    rest, _, host = holder.partition("@")
    pid = rest.rpartition("/")[0].rpartition("/")[2]
    where = f"on {host}" if host else "on another machine"
    return f"process {pid} {where}" if pid.isdigit() else f"an agent {where}"


def certainly_gone(holder: str) -> bool:
    """Whether ``holder`` ran where this process runs and does not any more."""
    place, _, rest = holder.partition("@")[0].partition("/")
    pid, _, started = rest.partition("/")
    if place != _place() or not pid.isdigit() or not started:
        return False
    return _started(int(pid)) != started


def _place() -> str:
    """The process namespace of this boot; unlike any other where the system does not tell."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return f"{socket.gethostname()}?"
    return f"{boot}:{namespace}".replace("/", "_")


def _started(pid: int) -> str:
    """When a process started, in clock ticks since boot; '' when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    dead = fields[0] in {"Z", "X"}
    return "" if dead else fields[_START_FIELD]
