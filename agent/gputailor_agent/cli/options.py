"""Options that several commands share, declared once with their help."""

import math
from collections.abc import Callable, Iterable
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
    typer.Option(
        "--archive",
        "-a",
        help="Recorded usage: exporter pages with timestamps, nvidia-smi CSV or dmon logs; "
        "files or folders. Repeatable.",
        rich_help_panel=INPUTS,
    ),
]
InventoryFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--inventory",
        "-i",
        help="What was asked for: output of kubectl get pods,nodes,jobs,… -o yaml or json, or "
        "manifests; files or folders. Repeatable.",
        rich_help_panel=INPUTS,
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        help="Ask a live cluster what was asked for, by this kubeconfig.",
        rich_help_panel=INPUTS,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="Ask the live cluster of this context of the kubeconfig.",
        rich_help_panel=INPUTS,
    ),
]
Namespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Only this namespace, of the live cluster or of a store: a name, a pattern such as "
        "'team-*', or '!PATTERN' for all but those. Repeatable.",
        rich_help_panel=INPUTS,
    ),
]
Kubernetes = Annotated[
    bool,
    typer.Option(
        "--kubernetes",
        help="Ask the live cluster of the current context what was asked for.",
        rich_help_panel=INPUTS,
    ),
]
TeamKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--team-key",
        help="A label or annotation that names the team, on a pod, its owners or its namespace; it "
        "wins over those known by themselves. Repeatable.",
        rich_help_panel=INPUTS,
    ),
]
PrometheusUrl = Annotated[
    str | None,
    typer.Option(
        "--prometheus-url",
        envvar="GPUTAILOR_PROMETHEUS_URL",
        help="Read usage from this Prometheus: http://HOST:9090, with user:password@ if need be; "
        "auto looks for one among the cluster's services.",
        rich_help_panel=INPUTS,
    ),
]
PrometheusTokenFile = Annotated[
    Path | None,
    typer.Option(
        "--prometheus-bearer-token-file",
        "--bearer-token-file",
        help="File with a bearer token for the Prometheus.",
        rich_help_panel=INPUTS,
    ),
]
PrometheusHeaders = Annotated[
    list[str] | None,
    typer.Option(
        "--prometheus-header",
        metavar="NAME: VALUE",
        help="A header for the Prometheus, e.g. 'X-Scope-OrgID: team'. Repeatable.",
        rich_help_panel=INPUTS,
    ),
]
PrometheusLabels = Annotated[
    list[str] | None,
    typer.Option(
        "--prometheus-label",
        metavar="NAME=VALUE",
        help="Only series with this label, where one server holds several clusters. Repeatable.",
        rich_help_panel=INPUTS,
    ),
]
PrometheusCa = Annotated[
    Path | None,
    typer.Option(
        "--prometheus-ca-file",
        help="CA that signed the certificate of the Prometheus.",
        rich_help_panel=INPUTS,
    ),
]
PrometheusParameters = Annotated[
    list[str] | None,
    typer.Option(
        "--prometheus-parameter",
        metavar="NAME=VALUE",
        help="A query parameter of each request, e.g. dedup=true for Thanos. Repeatable.",
        rich_help_panel=INPUTS,
    ),
]
PrometheusCertificate = Annotated[
    Path | None,
    typer.Option(
        "--prometheus-certificate-file",
        help="Client certificate (PEM) where the Prometheus asks for one.",
        rich_help_panel=INPUTS,
    ),
]
PrometheusKey = Annotated[
    Path | None,
    typer.Option(
        "--prometheus-key-file",
        help="Key of the client certificate, where it is not in the same file.",
        rich_help_panel=INPUTS,
    ),
]
Prices = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        callback=_there("--prices"),
        help="Your own prices: CSV with accelerator and/or instance_type, price_per_gpu_hour.",
        rich_help_panel=INPUTS,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="Begin of the window: 14d, 36h, or a UTC time like 2026-11-01T00:00. "
        "Without it the last 14 days for which there is data.",
        rich_help_panel=INPUTS,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        help="End of the window, likewise; without it the end of the data.",
        rich_help_panel=INPUTS,
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster", envvar="GPUTAILOR_CLUSTER", help="The cluster's name.", rich_help_panel=INPUTS
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="GPUTAILOR_STORE",
        help="Read what an agent stored, e.g. sqlite:///gputailor.db, where no --archive is given. "
        "With --prometheus-url what was read is kept there, so that the next time is quick.",
        rich_help_panel=INPUTS,
    ),
]
For = Annotated[
    list[str] | None,
    typer.Option(
        "--for",
        metavar="WHOSE",
        help="Which pod recorded logs belong to: NAMESPACE/NAME or NAMESPACE/NAME/CONTAINER, for "
        "one file LOG=NAMESPACE/NAME. Repeatable.",
        rich_help_panel=INPUTS,
    ),
]
Thresholds = Annotated[
    Path | None,
    typer.Option(
        "--thresholds",
        help="Your own thresholds of rules: YAML such as 'idle: {warn_minutes: 120}'. "
        "explain shows all there are.",
        rich_help_panel=INPUTS,
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        help="Format: " + "; ".join(f"{one.name} ({one.summary})" for one in formats().values()),
        autocompletion=lambda: list(formats()),
        rich_help_panel=ANSWER,
    ),
]

Language = Annotated[
    str,
    typer.Option(
        "--language",
        envvar="GPUTAILOR_LANGUAGE",
        help=f"Language of the answer: {' or '.join(names())}.",
        autocompletion=lambda: list(names()),
        rich_help_panel=ANSWER,
    ),
]
Teams = Annotated[
    list[str] | None,
    typer.Option(
        "--team",
        help="Report on this team's workloads only. Repeatable.",
        rich_help_panel=ANSWER,
    ),
]
Owners = Annotated[
    list[str] | None,
    typer.Option(
        "--owner",
        help="Report only on workloads of this person, as annotations and labels name them "
        "(docs/reports.md). Repeatable.",
        rich_help_panel=ANSWER,
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


def store_file(url: str) -> Path | None:
    """The SQLite file of a store's path or URL; None for a database server and for memory."""
    if "://" in url and not url.startswith("sqlite:///"):
        return None
    return Path(url.removeprefix("sqlite:///")).expanduser()
