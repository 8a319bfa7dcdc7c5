"""What a report or a notice says, made once and kept: every recipient gets the same words.

Mails show long tables shortened; the JSON attachment holds everything.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from gputailor_agent.model.judgement import Finding, Plan, Verdict
from gputailor_agent.reports import console, html, markdown, plan_page, units
from gputailor_agent.reports.beside import NOTHING, Beside
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.currencies import saved, together
from gputailor_agent.reports.delivery.teams import Part
from gputailor_agent.reports.document import (
    Block,
    Code,
    Document,
    Facts,
    Heading,
    Paragraph,
)
from gputailor_agent.reports.document import shortened as cut
from gputailor_agent.reports.formats import Look, render
from gputailor_agent.reports.plurals import counted, length
from gputailor_agent.reports.wording import joined, say, sentence

#: Rows of a table that a mail shows.
SHOWN_ROWS: Final = 60

REPORT: Final = "report"
IDLE: Final = "idle"
UNHEALTHY: Final = "unhealthy"
#: Notices, which wait in quiet hours and go together where they are many.
NOTICES: Final = (IDLE, UNHEALTHY)
#: What folders and object stores keep of a report, by the name of its format.
_FILES: Final = {
    "html": "report.html",
    "markdown": "report.md",
    "json": "report.json",
    "csv": "report.csv",
}

#: Lines of a mail's text are not longer (RFC 5322 asks for at most 78 characters).
MAIL_LOOK: Final = Look(width=76)
_LONGEST_SUBJECT: Final = 180


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """A message without its recipient. ``document`` is JSON text, attached as ``name``.json."""

    kind: str  # REPORT, or one of NOTICES
    cluster: str
    period: str
    made_at: float  # Unix seconds
    subject: str
    text: str  # Markdown
    html: str
    document: str
    name: str
    plain: str = ""  # the text without any markup; '' in what earlier versions kept
    #: Of a report that is kept: names, below its own folder, with their whole texts.
    files: dict[str, str] = {}


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Content)


def pack(content: Content) -> bytes:
    """The content as the store keeps it."""
    return _ENCODER.encode(content)


def unpack(body: bytes) -> Content:
    """The content that was kept; raises ``msgspec.DecodeError`` for anything else."""
    return _DECODER.decode(body)


def report_content(
    plan: Plan,
    period: str,
    *,
    public_url: str = "",
    beside: Beside = NOTHING,
    late: bool = False,
) -> Content:
    """The report of a plan for a period such as ``2026-01-05T07:00``, in the language spoken.

    One that is ``late`` says so in its subject; the plan's problems say why.
    """
    subject = _(
        "GPU report {cluster}, {length} to {end}",
        cluster=plan.cluster,
        length=length(plan.window.seconds),
        end=units.utc(plan.window.end),
    )
    savings = saved(plan.saving_money_per_month, plan.other_money)
    if any(one.amount > 0 for one in savings):
        money = together((one for one in savings if one.amount > 0), per="month")
        subject = _("{subject}: {money} to save", subject=subject, money=money)
    if late:
        subject = _("Late: {subject}", subject=subject)
    page = _with_origin(shortened(plan_page.compose(plan, beside)), plan, period, public_url)
    return Content(
        kind=REPORT,
        cluster=plan.cluster,
        period=period,
        made_at=plan.made_at,
        subject=_subject(subject),
        text=markdown.draw(page),
        plain=console.draw(page, MAIL_LOOK),
        html=html.draw(page, public_url=public_url),
        document=render(plan, "json", beside=beside),
        name=_file_name("gputailor-report", plan.cluster, period),
    )


def kept_content(
    plan: Plan, period: str, beside: Beside = NOTHING, parts: Iterable[Part] = ()
) -> Content:
    """The report of a plan as folders and object stores keep it: every format, nothing left out.

    ``parts``: the teams' own, which lie in folders beside it.
    """
    reports = [("", plan, beside), *((one.place, one.plan, one.beside) for one in parts)]
    return Content(
        kind=REPORT,
        cluster=plan.cluster,
        period=period,
        made_at=plan.made_at,
        subject="",
        text="",
        html="",
        document="",
        name="",
        files={
            place + file: render(of, name, beside=around)
            for place, of, around in reports
            for name, file in _FILES.items()
        },
    )


class Occasion(msgspec.Struct, frozen=True, kw_only=True):
    """What a notice is sent for. ``since``: Unix seconds; ``nodes``: '' where nobody says."""

    kind: str  # one of NOTICES
    period: str
    since: float
    made_at: float
    nodes: str = ""


def notice_content(
    verdict: Verdict, finding: Finding, occasion: Occasion, *, public_url: str
) -> Content:
    """The notice that a workload went idle, or that a GPU it holds is unhealthy."""
    workload = verdict.workload
    named = f"{workload.namespace}/{workload.name}"
    told = {"cluster": workload.cluster, "workload": named, "time": units.utc(occasion.since)}
    if occasion.kind == UNHEALTHY:
        title = _("Unhealthy GPUs: {workload}", workload=workload.id)
        subject = _("Unhealthy GPUs on {cluster}: {workload}, seen {time}", **told)
    else:
        title = _("Idle GPUs: {workload}", workload=workload.id)
        subject = _("Idle GPUs on {cluster}: {workload} since {time}", **told)
    blocks: list[Block] = [
        Heading(text=title, level=1),
        Paragraph(text=sentence(say(finding.message))),
        Facts(pairs=_notice_facts(verdict, finding, occasion)),
    ]
    blocks += [
        Paragraph(text=_("Mind: {risk}", risk=sentence(say(risk)))) for risk in finding.risks
    ]
    if finding.change.command:
        blocks += [Heading(text=_("What to do")), Code(text=finding.change.command, language="sh")]
    blocks.append(Paragraph(text=_why_you(occasion.kind, public_url), tone="muted"))
    page = Document(title=title, blocks=tuple(blocks))
    return Content(
        kind=occasion.kind,
        cluster=workload.cluster,
        period=occasion.period,
        made_at=occasion.made_at,
        subject=_subject(subject),
        text=markdown.draw(page),
        plain=console.draw(page, MAIL_LOOK),
        html=html.draw(page, public_url=public_url),
        document=msgspec.json.encode(finding).decode(),
        name=_file_name(f"gputailor-{occasion.kind}", workload.cluster, occasion.period),
    )


def _notice_facts(
    verdict: Verdict, finding: Finding, occasion: Occasion
) -> tuple[tuple[str, str], ...]:
    workload = verdict.workload
    where = (
        (_("cluster"), workload.cluster),
        (_("workload"), f"{workload.kind} {workload.namespace}/{workload.name}"),
        (_("container"), workload.container),
    )
    what = (
        (_("GPUs"), units.count(verdict.gpus_now)),
        (_("model"), _(", ").join(verdict.device_models) or units.unknown()),
    )
    sure = (_("confidence"), _(finding.confidence.value))
    if occasion.kind == UNHEALTHY:
        seen = (_("first seen"), units.utc(occasion.since))
        node = (_("node"), occasion.nodes or units.unknown())
        return (*where, node, seen, *what, sure)
    since = (_("idle since"), units.utc(occasion.since))
    saving = (_("saving"), units.money(finding.saving.money_per_month, per="month"))
    return (*where, since, *what, saving, sure)


def _why_you(kind: str, public_url: str) -> str:
    if kind == UNHEALTHY:
        told = _(
            "Sent when a fault of a GPU is first seen, and again when its errors go on, to those "
            "whose workload is on it and to those who run the cluster. Another receiver: "
            "annotation gputailor.io/notify on the workload; never again: "
            "gputailor.io/ignore: health."
        )
    else:
        told = _(
            "Sent once for this idle time. Another receiver: annotation gputailor.io/notify on the "
            "workload; never again: gputailor.io/ignore: idle."
        )
    page = _("The agent's page: {url}", url=f"{public_url}/") if public_url else ""
    return joined(told, page)


def _with_origin(page: Document, plan: Plan, period: str, public_url: str) -> Document:
    where = _("Up to date at {url}", url=f"{public_url}/") if public_url else ""
    told = _(
        "Report of cluster {cluster} due {due} UTC, made {made}. All figures are in the attached "
        "JSON.",
        cluster=plan.cluster,
        due=period.replace("T", " "),
        made=units.utc(plan.made_at),
    )
    text = joined(told, where)
    return Document(title=page.title, blocks=(*page.blocks, Paragraph(text=text, tone="muted")))


def shortened(page: Document, rows: int = SHOWN_ROWS) -> Document:
    """The page with tables of at most ``rows`` rows, each saying how many more there are."""
    return cut(page, rows, _left_out)


def _left_out(rows: int) -> str:
    return _("{rows} are in the attached JSON.", rows=counted(rows, "more row"))


def _subject(text: str) -> str:
    """One line without control characters, not too long."""
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
    return line if len(line) <= _LONGEST_SUBJECT else f"{line[: _LONGEST_SUBJECT - 3]}..."


def _file_name(*parts: str) -> str:
    joined = "-".join(parts)
    return "".join(mark if mark.isascii() and mark.isalnum() else "-" for mark in joined)[:100]


def payload(content: Content, message_id: str) -> dict[str, Any]:
    """What a web call carries; ``text`` is what chat servers show."""
    return {
        "kind": content.kind,
        "id": message_id,
        "cluster": content.cluster,
        "period": content.period,
        "made_at": content.made_at,
        "subject": content.subject,
        "text": content.text,
        "document": json.loads(content.document),
    }
