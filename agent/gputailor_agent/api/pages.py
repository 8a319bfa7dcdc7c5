"""The frame of every page: templates, language, who is there, and addresses that keep the language.

The language is that of ``?lang=``, else what the browser wants of those there are. Everything that
comes from outside is escaped by the templates; nothing is marked as safe.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.types import ASGIApp, Receive, Scope, Send

from gputailor_agent.api.doors import Doors, Visitor
from gputailor_agent.api.doors.doorkeeper import visitor_of
from gputailor_agent.api.doors.sessions import Forms
from gputailor_agent.api.state import AgentState
from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import _, spoken
from gputailor_agent.reports.document import Block, block_kind
from gputailor_agent.reports.languages import language, names, negotiated
from gputailor_agent.reports.plurals import counted

_NOT_YET: Final = 503
_KEEPING: Final = {
    "Cache-Control": "private, no-store",
    "Vary": "Authorization, Cookie, Accept-Language",
}


class Speaking:
    """Middleware: texts of an answer are in the language that was asked for.

    ``?lang=`` counts everywhere, the browser's wish for pages only: a program that reads the API
    gets English unless it says so.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with language(_wanted(scope)).spoken():
            await self._app(scope, receive, send)


def _wanted(scope: Scope) -> str:
    chosen = chosen_language(scope["query_string"].decode("latin-1"))
    if chosen:
        return chosen
    if scope["path"].startswith("/api/"):
        return names()[0]
    accepted = [value for name, value in scope["headers"] if name == b"accept-language"]
    return negotiated(b",".join(accepted)[:1000].decode("latin-1"))


def chosen_language(query: str) -> str:
    """The language that an address names; '' where it names none that there is."""
    given = [value for name, value in parse_qsl(query, max_num_fields=None) if name == "lang"]
    return given[0] if given and given[0] in names() else ""


def quoted(text: str) -> str:
    """A name as part of an address; its slashes stay."""
    return quote(text, safe="/")


class Pages:
    """Draws templates for a request."""

    def __init__(self, state: AgentState, doors: Doors) -> None:
        self._forms = Forms()
        self._state = state
        self._doors = doors
        self._environment = Environment(
            loader=PackageLoader("gputailor_agent.api"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters["quoted"] = quoted
        self._environment.tests["kind"] = _is_kind
        self._environment.globals["_"] = _

    def html(
        self,
        request: Request,
        template: str,
        *,
        title: str,
        here: str = "",
        status: int = 200,
        **values: Any,
    ) -> HTMLResponse:
        """A page; ``values`` fill the template."""
        chosen = chosen_language(request.url.query)
        visitor = visitor_of(request)
        frame = {
            "title": title,
            "here": here,
            "visitor": visitor,
            "mark": self.mark(visitor),
            "can_sign_in": self._doors.can_sign_in,
            "tag": spoken().tag,
            "language": spoken().name,
            "languages": [(name, language(name).own_name) for name in names()],
            "lang_chosen": bool(chosen),
            "unknown": units.unknown(),
            "not_yet": _("not measured yet"),
            "pages": _links(),
            "status": self._status() if visitor is not None else "",
            "url": lambda path, **query: address(path, lang=chosen, **query),
            "translated": lambda name: _translated(request, name),
        }
        body = self._environment.get_template(template).render(frame | values)
        return HTMLResponse(body, status_code=status, headers=_KEEPING)

    def note(
        self, request: Request, title: str, blocks: Sequence[Block], *, status: int
    ) -> HTMLResponse:
        """A page that says why there is no other."""
        return self.html(
            request,
            "document.html",
            title=title,
            status=status,
            blocks=blocks,
            back=status != _NOT_YET,
        )

    def mark(self, visitor: Visitor | None) -> str:
        """What forms of a visitor carry."""
        return self._forms.mark(_called(visitor))

    def marked(self, visitor: Visitor | None, given: str) -> bool:
        """Whether a form was made for this visitor."""
        return self._forms.holds(_called(visitor), given)

    def _status(self) -> str:
        """What the agent is doing, in a line or two; times to the second, in UTC."""
        plan, scraped = self._state.latest_plan(), self._state.last_round()
        parts = []
        if plan is not None:
            parts.append(_("Made at {time}.", time=_clock(plan.made_at)))
        if scraped is not None:
            parts.append(
                _(
                    "Last scrape at {time}: {answered} of {exporters} answered.",
                    time=_clock(scraped.at),
                    answered=units.count(scraped.answered),
                    exporters=counted(scraped.answered + scraped.failed, "exporter"),
                )
            )
        return " ".join(parts)


def _called(visitor: Visitor | None) -> str:
    return "" if visitor is None else f"{visitor.by} {visitor.name}"


def _links() -> list[tuple[str, str, str]]:
    return [
        ("workloads", "/workloads", _("Workloads")),
        ("nodes", "/nodes", _("Nodes")),
        ("coverage", "/coverage", _("Coverage")),
        ("reports", "/reports", _("Reports")),
    ]


def _is_kind(block: Block, kind: str) -> bool:
    return block_kind(block) == kind


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def address(path: str, **query: Any) -> str:
    """A path with a query of what is not empty; lists repeat their name."""
    pairs = [(name, value) for name, value in query.items() if value not in ("", None, (), [])]
    text = urlencode(pairs, doseq=True)
    return f"{path}?{text}" if text else path


def _translated(request: Request, name: str) -> str:
    """This page's address in another language."""
    kept = [one for one in parse_qsl(request.url.query) if one[0] != "lang"]
    return f"{quoted(request.url.path)}?{urlencode([*kept, ('lang', name)])}"


def inside(path: str) -> str:
    """A path of this site to go on to after signing in; ``/`` for anything else.

    Two slashes, or a backslash as the second sign, would lead to another site.
    """
    plain = path.isprintable() and not any(sign in path for sign in "\\\r\n")
    if not plain or not path.startswith("/") or path.startswith("//"):
        return "/"
    return path if PurePosixPath(path.partition("?")[0]).parts[:2] != ("/", "login") else "/"
