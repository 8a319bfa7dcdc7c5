"""``gputailor preview``: the weekly report as it would be sent, written to a folder."""

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from gputailor_agent.cli import options
from gputailor_agent.cli.errors import CommandError
from gputailor_agent.cli.inputs import Inputs
from gputailor_agent.cli.reported import report_of
from gputailor_agent.cli.settings import load_settings
from gputailor_agent.cli.terminal import answer
from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports.beside import NOTHING, Beside
from gputailor_agent.reports.catalogues import ENGLISH, speaking
from gputailor_agent.reports.delivery import mail
from gputailor_agent.reports.delivery.content import report_content
from gputailor_agent.reports.delivery.settings import DeliverySettings
from gputailor_agent.schedule.delivering import MAIL
from gputailor_agent.store.periods import hour_name

#: Who a preview is addressed to where the settings name nobody.
NOBODY: Final = "you@example.org"
_FROM: Final = "gputailor@example.org"

_EPILOG: Final = """Examples:

  gputailor preview --store sqlite:///gputailor.db --out preview/

  gputailor preview --archive metrics/ --inventory cluster.yaml --out preview/

  gputailor preview --config agent.yaml --out preview/    # recipients and store of the agent
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(preview)


def preview(
    *,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the files; made if it is not there.")
    ],
    config: Annotated[
        Path | None,
        typer.Option("--config", envvar="GPUTAILOR_CONFIG", help="The agent's settings file."),
    ] = None,
    archive: options.Archive = None,
    inventory: options.InventoryFiles = None,
    prices: options.Prices = None,
    since: options.Since = None,
    until: options.Until = None,
    cluster: options.Cluster = options.DEFAULT_CLUSTER,
    store: options.Store = None,
    language: options.Language = ENGLISH,
) -> None:
    """Write the weekly report as it would be mailed now: HTML, Markdown, JSON and the mail itself.

    Nothing is sent and nothing is noted as sent. Recipients, sender and public_url are those of
    the agent's settings (environment, --config).
    """
    settings = load_settings({}, config)
    named = cluster != options.DEFAULT_CLUSTER
    asked = Inputs(
        archive=tuple(archive or ()),
        inventory=tuple(inventory or ()),
        team_keys=settings.team_keys,
        prices=prices or settings.prices,
        since=since,
        until=until,
        cluster=cluster if named else settings.cluster,
        store=store or (settings.store if not archive else None),
    )
    with speaking(options.spoken_language(language)):
        plan, beside = report_of(asked)
        for path in write_preview(plan, out, settings.delivery, at=time.time(), beside=beside):
            answer(str(path))


def write_preview(
    plan: Plan,
    folder: Path,
    settings: DeliverySettings,
    *,
    at: float,
    beside: Beside = NOTHING,
) -> list[Path]:
    """Write what would be sent of ``plan`` at ``at`` (Unix seconds); returns the files' paths.

    Raises ``CommandError`` where the folder cannot be written.
    """
    period = f"{hour_name(at)}:00"
    made = report_content(plan, period, public_url=settings.public_url, beside=beside)
    addressed = replace(settings, mail_from=settings.mail_from or _FROM)
    texts: dict[str, bytes] = {
        "report.html": made.html.encode(),
        "report.md": made.text.encode(),
        "report.json": made.document.encode(),
    }
    for number, recipient in enumerate(settings.mail_to or (NOBODY,), 1):
        key = (period, f"{plan.cluster}/{made.kind}", MAIL, recipient)
        built = mail.build(
            made,
            mail_from=addressed.mail_from,
            recipient=recipient,
            identity=mail.message_id(key, addressed.mail_from),
        )
        texts["report.eml" if number == 1 else f"report-{number}.eml"] = built.as_bytes()
    return _write(folder, texts.items())


def _write(folder: Path, texts: Iterable[tuple[str, bytes]]) -> list[Path]:
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts:
            path = folder / name
            path.write_bytes(text)
            paths.append(path)
    except OSError as error:
        raise CommandError(f"--out: cannot write to {folder}: {error.strerror}") from error
    return paths
