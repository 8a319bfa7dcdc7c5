"""``gputailor preview``: the weekly report as it would be sent, written to a folder.

For each receiver there is what it would get: mails, what chats are given to post, the body of the
web call, the files that are kept, and under ``teams/`` the part of each team. Addresses of chats,
passwords and signatures are in none of them.
"""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
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
from gputailor_agent.reports.delivery import channels, mail
from gputailor_agent.reports.delivery.content import kept_content, payload, report_content
from gputailor_agent.reports.delivery.keeping import plain
from gputailor_agent.reports.delivery.settings import DeliverySettings
from gputailor_agent.reports.delivery.teams import Part, parts
from gputailor_agent.schedule.ways import MAIL, WEBHOOK
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
    """Write the weekly report as it would be sent now: mails, chats, web call, teams' parts.

    Nothing is sent and nothing is noted as sent. Receivers, sender and public_url are those of
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
    addressed = replace(settings, mail_from=settings.mail_from or _FROM)
    texts: dict[str, bytes] = {}
    several = list(parts(plan, beside, addressed))
    for part in several:
        texts |= _part(part, period, addressed)
    if settings.folder is not None or settings.objects is not None:
        kept = kept_content(plan, period, beside, several[1:]).files
        texts |= {f"kept/{name}": text.encode() for name, text in kept.items()}
    return _write(folder, texts.items())


def _part(part: Part, period: str, settings: DeliverySettings) -> Iterator[tuple[str, bytes]]:
    """The files of one report: its forms, a mail a recipient, what each chat and web call gets."""
    where = part.place
    made = report_content(part.plan, period, public_url=settings.public_url, beside=part.beside)
    yield f"{where}report.html", made.html.encode()
    yield f"{where}report.md", made.text.encode()
    yield f"{where}report.json", made.document.encode()
    scope = "/".join(one for one in (part.plan.cluster, made.kind, part.about) if one)
    nobody = () if part.about else (NOBODY,)
    for number, recipient in enumerate(part.receivers.mail_to or nobody, 1):
        key = (period, scope, MAIL, recipient)
        built = mail.build(
            made,
            mail_from=settings.mail_from,
            recipient=recipient,
            identity=mail.message_id(key, settings.mail_from),
        )
        name = "report.eml" if number == 1 else f"report-{number}.eml"
        yield where + name, built.as_bytes()
    for name in part.receivers.channels:
        posting = channels.composed(channels.opened(name, settings.channels[name]), made)
        yield f"{where}chat-{plain(name)}.json", _json(msgspec.structs.asdict(posting))
    if settings.webhook_url and not part.about:
        key = (period, scope, WEBHOOK, settings.webhook_name)
        identity = mail.message_id(key, settings.mail_from).strip("<>")
        yield f"{where}webhook.json", _json(payload(made, identity))


def _json(told: dict[str, Any]) -> bytes:
    return json.dumps(told, ensure_ascii=False, indent=2).encode() + b"\n"


def _write(folder: Path, texts: Iterable[tuple[str, bytes]]) -> list[Path]:
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
            paths.append(path)
    except OSError as error:
        raise CommandError(f"--out: cannot write to {folder}: {error.strerror}") from error
    return paths
