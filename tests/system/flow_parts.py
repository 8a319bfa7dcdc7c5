"""Which places a Python process speaks to, told by itself.

A look at a process's sockets now and then misses what lasts a moment: one mail, one query an hour.
An audit hook of the interpreter is told of every ``connect`` and every look-up of a name. What C
libraries connect by themselves (libpq) is not seen.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

HOOK = """
import os
import sys

def _note(event, arguments, sink=os.open({sink!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        os.write(sink, f"connect {{arguments[1][0]}} {{arguments[1][1]}}\\n".encode())
    elif event == "socket.getaddrinfo":
        os.write(sink, f"look-up {{arguments[0]}} {{arguments[1]}}\\n".encode())

sys.addaudithook(_note)
"""


class Flows:
    """Tells of the processes that are started with ``environment``."""

    def __init__(self, folder: Path) -> None:
        self._sink = folder / "flows"
        self._folder = folder / "hook"
        self._folder.mkdir()
        hook = HOOK.format(sink=str(self._sink))
        (self._folder / "sitecustomize.py").write_text(hook, "utf-8")

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """``given``, and what makes a Python process tell."""
        path = os.pathsep.join(filter(None, (str(self._folder), given.get("PYTHONPATH"))))
        return {**given, "PYTHONPATH": path}

    @property
    def connected(self) -> set[tuple[str, int]]:
        """Address and port of every TCP or UDP connection that was begun."""
        lines = self._sink.read_text("utf-8").splitlines() if self._sink.exists() else []
        told = [line.split() for line in lines if line.startswith("connect ")]
        return {(address, int(port)) for _, address, port in told}


def listening(pid: int) -> set[int]:
    """Ports on which a process or its children listen."""
    process = psutil.Process(pid)
    return {
        one.laddr.port
        for each in (process, *process.children(recursive=True))
        for one in each.net_connections("inet")
        if one.status == psutil.CONN_LISTEN
    }


def reached(pid: int) -> set[int]:
    """Ports at the other ends of the connections that a process or its children hold now."""
    process = psutil.Process(pid)
    own = listening(pid)
    return {
        one.raddr.port
        for each in (process, *process.children(recursive=True))
        for one in each.net_connections("inet")
        if one.raddr and one.laddr.port not in own
    }


def allowed(policies: Iterable[Mapping[str, Any]]) -> dict[str, set[int]]:
    """Ports that each component may reach, by the NetworkPolicies of a release."""
    found = {}
    for each in policies:
        labels = each["spec"]["podSelector"]["matchLabels"]
        rules = each["spec"].get("egress", ())
        ports = {port["port"] for rule in rules for port in rule["ports"]}
        found[labels.get("app.kubernetes.io/component", "agent")] = ports
    return found
