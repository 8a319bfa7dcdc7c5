"""Options that several commands share, declared once with their help."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
import yaml

from gputailor_agent.cli.errors import UsageError
from gputailor_agent.reports.catalogues import UnknownLanguageError, catalogue, names
from gputailor_agent.reports.formats import Format, UnknownFormatError, find, formats
from gputailor_agent.rules import RuleSettings, SettingsError, check_settings

INPUTS: Final = "What to judge"
ANSWER: Final = "The answer"

_input = partial(typer.Option, rich_help_panel=INPUTS)
_answer = partial(typer.Option, rich_help_panel=ANSWER)


def existing(option: str, paths: Iterable[Path]) -> list[Path]:
    """The paths, all of which must exist."""
    found = list(paths)
    for path in found:
        if not path.exists():
            raise UsageError(f"{option}: {path} does not exist")
    return found


def _there(option: str) -> Callable[[Path | None], Path | None]:
    """What an option of one file is checked by."""

    def check(path: Path | None) -> Path | None:
        existing(option, () if path is None else (path,))
        return path

    return check


Archive = Annotated[
    list[Path] | None,
    _input(
        "--archive",
        "-a",
        help="Recorded usage: exporter pages with timestamps, nvidia-smi CSV or dmon logs; "
        "files or folders. Repeatable.",
    ),
]
InventoryFiles = Annotated[
    list[Path] | None,
    _input(
        "--inventory",
        "-i",
        help="What was asked for: output of kubectl get pods,nodes,jobs,… -o yaml or json, or "
        "manifests; files or folders. Repeatable.",
    ),
]
Kubeconfig = Annotated[
    Path | None,
    _input(
        "--kubeconfig",
        help="Ask a live cluster what was asked for, by this kubeconfig.",
    ),
]
Context = Annotated[
    str | None,
    _input(
        "--context",
        help="Ask the live cluster of this context of the kubeconfig.",
    ),
]
Namespaces = Annotated[
    list[str] | None,
    _input(
        "--namespace",
        "-n",
        help="Only this namespace, of the live cluster or of a store: a name, a pattern such as "
        "'team-*', or '!PATTERN' for all but those. Repeatable.",
    ),
]
Kubernetes = Annotated[
    bool,
    _input(
        "--kubernetes",
        help="Ask the live cluster of the current context what was asked for.",
    ),
]
TeamKeys = Annotated[
    list[str] | None,
    _input(
        "--team-key",
        help="A label or annotation that names the team, on a pod, its owners or its namespace; it "
        "wins over those known by themselves. Repeatable.",
    ),
]
PrometheusUrl = Annotated[
    str | None,
    _input(
        "--prometheus-url",
        envvar="GPUTAILOR_PROMETHEUS_URL",
        help="Read usage from this Prometheus: http://HOST:9090, with user:password@ if need be; "
        "auto looks for one among the cluster's services.",
    ),
]
PrometheusTokenFile = Annotated[
    Path | None,
    _input(
        "--prometheus-bearer-token-file",
        "--bearer-token-file",
        help="File with a bearer token for the Prometheus.",
    ),
]
PrometheusHeaders = Annotated[
    list[str] | None,
    _input(
        "--prometheus-header",
        metavar="NAME: VALUE",
        help="A header for the Prometheus, e.g. 'X-Scope-OrgID: team'. Repeatable.",
    ),
]
PrometheusLabels = Annotated[
    list[str] | None,
    _input(
        "--prometheus-label",
        metavar="NAME=VALUE",
        help="Only series with this label, where one server holds several clusters. Repeatable.",
    ),
]
PrometheusCa = Annotated[
    Path | None,
    _input(
        "--prometheus-ca-file",
        help="CA that signed the certificate of the Prometheus.",
    ),
]
PrometheusParameters = Annotated[
    list[str] | None,
    _input(
        "--prometheus-parameter",
        metavar="NAME=VALUE",
        help="A query parameter of each request, e.g. dedup=true for Thanos. Repeatable.",
    ),
]
PrometheusCertificate = Annotated[
    Path | None,
    _input(
        "--prometheus-certificate-file",
        help="Client certificate (PEM) where the Prometheus asks for one.",
    ),
]
PrometheusKey = Annotated[
    Path | None,
    _input(
        "--prometheus-key-file",
        help="Key of the client certificate, where it is not in the same file.",
    ),
]
Prices = Annotated[
    Path | None,
    _input(
        "--prices",
        callback=_there("--prices"),
        help="Your own prices: CSV with accelerator and/or instance_type, price_per_gpu_hour.",
    ),
]
Since = Annotated[
    str | None,
    _input(
        "--since",
        help="Begin of the window: 14d, 36h, or a UTC time like 2026-11-01T00:00. "
        "Without it the last 14 days for which there is data.",
    ),
]
Until = Annotated[
    str | None,
    _input(
        "--until",
        help="End of the window, likewise; without it the end of the data.",
    ),
]
Cluster = Annotated[
    str,
    _input(
        "--cluster",
        envvar="GPUTAILOR_CLUSTER",
        help="The cluster's name.",
    ),
]
Store = Annotated[
    str | None,
    _input(
        "--store",
        envvar="GPUTAILOR_STORE",
        help="Read what an agent stored, e.g. sqlite:///gputailor.db, where no --archive is given. "
        "With --prometheus-url what was read is kept there, so that the next time is quick.",
    ),
]
For = Annotated[
    list[str] | None,
    _input(
        "--for",
        metavar="WHOSE",
        help="Which pod recorded logs belong to: NAMESPACE/NAME or NAMESPACE/NAME/CONTAINER, for "
        "one file LOG=NAMESPACE/NAME. Repeatable.",
    ),
]
Thresholds = Annotated[
    Path | None,
    _input(
        "--thresholds",
        help="Your own thresholds of rules: YAML such as 'idle: {warn_minutes: 120}'. "
        "explain shows all there are.",
    ),
]
Output = Annotated[
    str,
    _answer(
        "--output",
        "-o",
        help="Format: " + "; ".join(f"{one.name} ({one.summary})" for one in formats().values()),
        autocompletion=lambda: list(formats()),
    ),
]

Language = Annotated[
    str,
    _answer(
        "--language",
        envvar="GPUTAILOR_LANGUAGE",
        help=f"Language of the answer: {' or '.join(names())}.",
        autocompletion=lambda: list(names()),
    ),
]
Teams = Annotated[
    list[str] | None,
    _answer(
        "--team",
        help="Report on this team's workloads only. Repeatable.",
    ),
]
Owners = Annotated[
    list[str] | None,
    _answer(
        "--owner",
        help="Report only on workloads of this person, as annotations and labels name them "
        "(docs/reports.md). Repeatable.",
    ),
]

#: What ``--cluster`` is when nobody says.
DEFAULT_CLUSTER: Final = "default"


def output_format(name: str) -> Format:
    """The format of ``--output``; a wrong name is wrong usage."""
    try:
        return find(name)
    except UnknownFormatError as error:
        raise UsageError(f"--output: {error}") from error


def read_thresholds(path: Path | None) -> RuleSettings:
    """Thresholds by rule and name out of a YAML file; {} without one.

    Raises ``UsageError`` where the file is no mapping of numbers, ``SettingsError`` for rules and
    thresholds that there are not.
    """
    if path is None:
        return RuleSettings()
    example = "expected YAML such as 'idle: {warn_minutes: 120}'"
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--thresholds: cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        told = " ".join(str(error).split())
        raise UsageError(f"--thresholds: {path} is not YAML: {told}; {example}") from error
    if isinstance(found, dict) and list(found) == ["thresholds"]:
        found = found["thresholds"]  # as it stands in the agent's settings
    values: dict[str, dict[str, float]] = {}
    for rule, own in _mapping(found, f"--thresholds: {path}", example).items():
        where = f"--thresholds: {path}: {rule}"
        for name, value in _mapping(own, where, example).items():
            values.setdefault(rule, {})[name] = _number(value, f"{where}.{name}")
    settings = RuleSettings(thresholds=values)
    try:
        check_settings(settings)
    except SettingsError as error:
        raise UsageError(f"--thresholds: {path}: {error}") from error
    return settings


def _mapping(value: object, where: str, example: str) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(f"{where}: {example}, found {str(value)[:60]!r}")
    return {str(name): own for name, own in value.items()}


def _number(value: object, where: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise UsageError(f"{where}: expected a number, found {value!r}")


def spoken_language(name: str) -> str:
    """The language of ``--language``; a wrong name is wrong usage."""
    try:
        return catalogue(name).name
    except UnknownLanguageError as error:
        raise UsageError(f"--language: {error}") from error
