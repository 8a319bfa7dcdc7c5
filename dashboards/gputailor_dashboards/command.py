"""Subcommand ``gputailor dashboards``, found by the entry point group ``gputailor.commands``.

grafanalib and httpx are imported when they are needed: the command is listed without the extra,
too, and dashboards can be written without an HTTP client.
"""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from gputailor_dashboards.importing import Grafana
    from gputailor_dashboards.publishing import Placing

commands = typer.Typer(
    help="Grafana dashboards, Prometheus rules and alerts.", no_args_is_help=True
)


class Exporter(StrEnum):
    """Exporters that there are dashboards on."""

    GPUTAILOR = "gputailor"
    DCGM = "dcgm"
    SMI = "smi"


Exporters = Annotated[
    list[Exporter] | None,
    typer.Option(
        "--exporter",
        help="Dashboards on this exporter's metrics; repeat. smi is nvidia_gpu_exporter. All by "
        "default.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``dashboards`` to the command line ``app``."""
    app.add_typer(commands, name="dashboards")


@commands.callback()
def _dashboards() -> None:
    """Grafana dashboards, Prometheus rules and alerts."""


@commands.command(epilog="Example: gputailor dashboards generate ./grafana")
def generate(
    folder: Annotated[Path, typer.Argument(help="Folder the files are written to.")],
    *,
    namespace: Annotated[
        str, typer.Option(help="Namespace written into the Kubernetes objects.")
    ] = "",
    sidecar_label: Annotated[
        str, typer.Option(help="Label by which Grafana's sidecar finds ConfigMaps, as NAME=VALUE.")
    ] = "grafana_dashboard=1",
    rule_label: Annotated[
        list[str] | None,
        typer.Option(
            help="Label by which the Prometheus operator finds rules, as release=NAME; repeat."
        ),
    ] = None,
    instance_label: Annotated[
        str,
        typer.Option(help="Label of the Grafana that Grafana's operator writes to, as NAME=VALUE."),
    ] = "dashboards=grafana",
    grafana_folder: Annotated[
        str, typer.Option(help="Grafana's folder, written into ConfigMaps and custom resources.")
    ] = "",
    team_label: Annotated[
        str,
        typer.Option(
            help="Label of namespaces that names their team, as kube-state-metrics shows it: "
            "without label_ before it, other signs than letters and digits as _."
        ),
    ] = "team",
    runbooks: Annotated[
        str, typer.Option(help="Address of the folder of the alerts' pages, for their annotation.")
    ] = "docs/alerts",
    exporter: Exporters = None,
) -> None:
    """Write dashboards and Prometheus rules, as files to import and as Kubernetes objects."""
    try:
        from gputailor_dashboards import generating, publishing  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _missing(error)
    if not team_label.isidentifier():
        _fail(f"--team-label: expected letters, digits and _, found {team_label!r}", 2)
    placing: Placing = publishing.Placing(
        namespace=namespace,
        sidecar_labels=_labels("--sidecar-label", [sidecar_label]),
        rule_labels=_labels("--rule-label", rule_label or []),
        instance_labels=_labels("--instance-label", [instance_label]),
        grafana_folder=grafana_folder,
        team_label=team_label,
        runbooks=runbooks,
        exporters=_keys(exporter),
    )
    try:
        written = generating.generate(folder, placing)
    except OSError as error:
        _fail(f"cannot write dashboards to {folder}: {error.strerror}")
    for path in written:
        typer.echo(str(path))


@commands.command(
    "import",
    epilog="Example: GRAFANA_TOKEN=… gputailor dashboards import https://grafana.example.org",
)
def import_(
    url: Annotated[
        str, typer.Argument(envvar="GRAFANA_URL", help="Address of Grafana, with its path.")
    ],
    *,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token of a service account. Without it GRAFANA_TOKEN of the "
            "environment counts; a token on the command line could be read by others."
        ),
    ] = None,
    folder: Annotated[str, typer.Option(help="Title of the folder in Grafana.")] = "GPU Tailor",
    folder_uid: Annotated[str, typer.Option(help="Uid of that folder.")] = "gputailor",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace dashboards that are there and differ.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Only show what would change; exit code 1 if anything.")
    ] = False,
    ca_file: Annotated[
        Path | None, typer.Option(help="Certificate authority that signed Grafana's certificate.")
    ] = None,
    exporter: Exporters = None,
) -> None:
    """Put the dashboards into a Grafana by its HTTP API."""
    try:
        from gputailor_dashboards import generating, importing  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _missing(error)
    documents = [generating.dashboard(name) for name in generating.names(_keys(exporter))]
    token = _token(token_file)
    well = True
    try:
        with importing.Grafana(url, token, ca_file=str(ca_file) if ca_file else None) as grafana:
            if diff:
                well = not _differences(grafana, documents)
            else:
                where = (folder_uid, folder)
                for one in importing.put_all(grafana, documents, where, overwrite=overwrite):
                    typer.echo(f"{one.outcome:10}{one.uid}  {one.said}".rstrip())
                    well = well and one.well
    except (importing.GrafanaError, OSError) as error:
        _fail(str(error))
    if not well and not diff:
        typer.echo(
            "error: not all dashboards are in Grafana as they should be; --diff shows what "
            "differs, --overwrite replaces it",
            err=True,
        )
    if not well:
        raise typer.Exit(1)


def _differences(grafana: "Grafana", documents: list[dict[str, object]]) -> bool:
    """Show what would change; whether anything would."""
    from gputailor_dashboards.importing import difference  # noqa: PLC0415 - an extra

    differs = False
    for document in documents:
        for line in difference(grafana.dashboard(str(document["uid"])), document):
            differs = True
            typer.echo(line)
    return differs


def _token(file: Path | None) -> str:
    if file is None:
        token = os.environ.get("GRAFANA_TOKEN", "")
        if not token:
            _fail("no token: set GRAFANA_TOKEN, or give --token-file", 2)
        return token
    try:
        token = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        _fail(f"cannot read the token file {file}: {error}", 2)
    if not token:
        _fail(f"the token file {file} is empty", 2)
    return token


def _keys(exporters: list[Exporter] | None) -> tuple[str, ...]:
    return tuple(one.value for one in exporters or Exporter)


def _labels(option: str, texts: list[str]) -> dict[str, str]:
    """Split NAME=VALUE; anything else is wrong usage."""
    labels = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            _fail(f"{option}: expected NAME=VALUE, found {text!r}", 2)
        labels[name] = value
    return labels


def _missing(error: ModuleNotFoundError) -> NoReturn:
    typer.echo(
        f"error: this command needs the dashboards extra (missing: {error.name}).\n"
        "Install it: pip install 'gputailor[dashboards]'",
        err=True,
    )
    raise typer.Exit(1) from error


def _fail(message: str, code: int = 1) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)
