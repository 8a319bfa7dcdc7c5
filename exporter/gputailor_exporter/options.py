"""The exporter's options: flags over environment over defaults.

Every option has an environment variable, ``GPUTAILOR_EXPORTER_`` and the flag's name. Standard
library only, so that ``--help`` answers before any extra is installed. The ``--collect.NAME`` flags
come from the registry of collectors.
"""

import argparse
import math
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gputailor_exporter import __version__
from gputailor_exporter.collectors import COLLECTORS
from gputailor_exporter.devices import registry

ENVIRONMENT_PREFIX: Final = "GPUTAILOR_EXPORTER_"

#: Beside 9835 of nvidia_gpu_exporter, so that both can run on one host network.
DEFAULT_LISTEN: Final = ":9836"

POD_RESOURCES_SOCKET: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"

_LISTEN: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]*\]|[^:\[\]]*):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line and the environment asked for; times in seconds."""

    backend: str
    scenario: Path | None
    node: str
    listen: tuple[tuple[str, int], ...]  # host (empty: every address) and port
    interval: float
    linger: float
    hang_after: float
    require_devices: bool
    attribution: str
    keep_allocations: float
    sharing: str | None
    pod_resources_socket: str
    proc_root: Path
    sys_root: Path
    pod_logs_root: Path
    collectors: frozenset[str]  # names of what is on, of collectors.COLLECTORS
    web_config: Path | None
    log_level: str

    @property
    def histogram(self) -> bool:
        """Whether containers' seconds go into histograms."""
        return HISTOGRAM in self.collectors


def listen_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT, :PORT (every address, IPv4 and IPv6) or [IPV6]:PORT."""
    match = _LISTEN.fullmatch(text)
    if match is None or int(match["port"]) > 65535:  # noqa: PLR2004 - the highest TCP port
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, for example :9836, not {text!r}")
    return match["host"].strip("[]"), int(match["port"])


def listen_addresses(text: str) -> tuple[tuple[str, int], ...]:
    """Parse one or more addresses with commas between them."""
    return tuple(listen_address(part.strip()) for part in text.split(","))


def _seconds(least: float, most: float = math.inf) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most or math.isinf(value):
            limits = f"from {least:g} " + ("up" if math.isinf(most) else f"to {most:g}")
            raise argparse.ArgumentTypeError(f"expected seconds {limits}, not {text!r}")
        return value

    return parse


def _one_of(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(names)}, not {text!r}")
        return text

    return parse


def _backend(text: str) -> str:
    if not registry.known(text):
        names = ", ".join((*registry.BUILT_IN, *registry.registered()))
        raise argparse.ArgumentTypeError(f"expected one of {names}, not {text!r}")
    return text


def _truth(text: str) -> bool:
    if text.lower() in {"1", "true", "yes", "on"}:
        return True
    if text.lower() in {"", "0", "false", "no", "off"}:
        return False
    raise argparse.ArgumentTypeError(f"expected true or false, not {text!r}")


#: flag -> (parser, default, metavar, help)
_FLAGS: Final[dict[str, tuple[Callable[[str], Any], Any, str, str]]] = {
    "backend": (
        _backend,
        "nvml",
        "nvml|amd|drm|auto|simulated|NAME",
        "how devices are read; simulated needs --scenario; NAME: of an installed package",
    ),
    "scenario": (Path, None, "FILE", "scenario of the simulated back end (YAML), or demo"),
    "node": (str, None, "NAME", "name of this node (default: NODE_NAME, else the host name)"),
    "listen": (
        listen_addresses,
        DEFAULT_LISTEN,
        "HOST:PORT",
        "where to serve; without HOST every address, IPv6 too; several: repeat it, or use commas",
    ),
    "interval": (
        _seconds(0.05, 10.0),
        1.0,
        "SECONDS",
        "time between two readings of a device; above 1 s bursts blur in the histograms",
    ),
    "linger": (
        _seconds(0.0),
        180.0,
        "SECONDS",
        "how long counters of an ended container stay: two scrapes and 60 s",
    ),
    "hang-after": (
        _seconds(0.1, 60.0),
        5.0,
        "SECONDS",
        "a driver call of a device this long means that the device hangs",
    ),
    "attribution": (
        _one_of("kubernetes", "process", "none"),
        "kubernetes",
        "kubernetes|process|none",
        "who holds devices: by kubelet; by user, job or unit, and command; none: devices alone",
    ),
    "keep-allocations": (
        _seconds(0.0),
        120.0,
        "SECONDS",
        "how long the last good allocations stand for a kubelet that is gone or answers by half",
    ),
    "sharing": (
        _one_of("time_slicing", "mps"),
        None,
        "time_slicing|mps",
        "how replicas of a device share it, which their ids do not tell",
    ),
    "pod-resources-socket": (str, POD_RESOURCES_SOCKET, "PATH", "kubelet's PodResources socket"),
    "proc-root": (Path, Path("/proc"), "PATH", "the host's /proc"),
    "sys-root": (Path, Path("/sys"), "PATH", "the host's /sys"),
    "pod-logs-root": (Path, Path("/var/log/pods"), "PATH", "the host's /var/log/pods"),
    "web-config": (Path, None, "FILE", "Prometheus web-config file: TLS and basic auth"),
    "log-level": (
        _one_of("debug", "info", "warning", "error"),
        "info",
        "LEVEL",
        "debug, info, warning or error",
    ),
}

#: The collector that --no-histogram turns off.
HISTOGRAM: Final = "histogram"
_COLLECT: Final = "collect."

EPILOG: Final = f"""\
examples:
  gputailor-exporter                               a node of a cluster, with kubelet
  gputailor-exporter --attribution process         a machine outside Kubernetes
  gputailor-exporter check                         what can be read on this node, and why not
  gputailor-exporter --backend simulated --scenario demo --node a100-0 --listen 127.0.0.1:9836
                                                   to look at it without a GPU
then: curl http://127.0.0.1:9836/metrics, /healthz, /readyz (503 until the first full cycle)

environment: every option can be given as {ENVIRONMENT_PREFIX}NAME, for example
{ENVIRONMENT_PREFIX}LISTEN; flags win over the environment.

other commands: gputailor-exporter check says what can be read on this node and what is missing for
the rest; gputailor-exporter simulate writes the history of a scenario to files (--help for each).

exit codes: 0 stopped as asked, 1 failed, 2 wrong usage.
"""


def variable(flag: str) -> str:
    """Return the environment variable of a flag."""
    return ENVIRONMENT_PREFIX + re.sub(r"[-.]", "_", flag.upper())


def parser() -> argparse.ArgumentParser:
    """Return the parser; options not given are left out of its result."""
    made = argparse.ArgumentParser(
        prog="gputailor-exporter",
        description="Measures the GPUs of this node and the containers that hold them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    for flag, (parse, default, metavar, text) in _FLAGS.items():
        shown = f" (default: {default})" if default is not None else ""
        action = "extend" if flag == "listen" else "store"
        made.add_argument(
            f"--{flag}", type=parse, metavar=metavar, help=text + shown, action=action
        )
    for one in COLLECTORS:
        made.add_argument(
            f"--{_COLLECT}{one.name}",
            type=_truth,
            metavar="true|false",
            help=f"{one.help} (default: {str(one.default).lower()})",
        )
    made.add_argument(
        "--no-histogram",
        action="store_true",
        help="--collect.histogram=false: 50 of at most 90 series per container and GPU",
    )
    made.add_argument(
        "--require-devices",
        action="store_true",
        help="end with code 1 where no device can be read at the start, instead of waiting for one",
    )
    made.add_argument("--version", action="version", version=f"gputailor-exporter {__version__}")
    return made


def parse_options(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    made: argparse.ArgumentParser | None = None,
) -> Options:
    """Return the options; a wrong one ends the process with code 2 and one line that says why.

    ``made`` is a parser of ``parser()`` to which a command added options of its own.
    """
    made = made or parser()
    given = vars(made.parse_args(arguments))
    values: dict[str, Any] = {}
    for flag, (parse, default, _, _) in _FLAGS.items():
        name = flag.replace("-", "_")
        text = environment.get(variable(flag))
        if name in given:
            values[name] = given[name]
        elif text:
            values[name] = _from_environment(made, flag, parse, text)
        else:
            values[name] = parse(default) if flag == "listen" else default
    values["listen"] = tuple(values["listen"])
    required = environment.get(variable("require-devices"), "")
    values["require_devices"] = given.get("require_devices") or _from_environment(
        made, "require-devices", _truth, required
    )
    values["collectors"] = _collectors(made, given, environment)
    values["node"] = values["node"] or environment.get("NODE_NAME") or socket.gethostname()
    if values["backend"] == "simulated" and values["scenario"] is None:
        made.error("--backend simulated needs --scenario FILE")
    if values["backend"] != "simulated" and values["scenario"] is not None:
        made.error("--scenario is for --backend simulated")
    return Options(**values)


def _collectors(
    made: argparse.ArgumentParser, given: Mapping[str, Any], environment: Mapping[str, str]
) -> frozenset[str]:
    """Names of what is on; a collector's own flag wins over --no-histogram."""
    on = {one.name: one.default for one in COLLECTORS}
    without = environment.get(variable("no-histogram"), "")
    if _from_environment(made, "no-histogram", _truth, without):
        on[HISTOGRAM] = False
    for name in [one.name for one in COLLECTORS]:
        text = environment.get(variable(_COLLECT + name))
        if text:
            on[name] = _from_environment(made, _COLLECT + name, _truth, text)
    if given.get("no_histogram"):  # a flag, so that it wins over the environment
        on[HISTOGRAM] = False
    on |= {name: given[_COLLECT + name] for name in on if _COLLECT + name in given}
    return frozenset(name for name, wanted in on.items() if wanted)


def _from_environment(
    made: argparse.ArgumentParser, flag: str, parse: Callable[[str], Any], text: str
) -> Any:
    try:
        return parse(text)
    except argparse.ArgumentTypeError as error:
        made.error(f"{variable(flag)}: {error}")
