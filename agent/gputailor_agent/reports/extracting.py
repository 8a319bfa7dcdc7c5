"""Every text that has to be translated, and the catalogues brought up to date with it.

``python -m gputailor_agent.reports.extracting`` writes ``locale/gputailor.pot`` and updates each
language's ``.po``: new texts come in empty, texts that are gone go out, and nothing is guessed (no
fuzzy matches). With ``--check`` nothing is written; it fails where a file would change.

Texts are of four kinds: message templates and titles, known from the registries; texts marked in
the source by ``_``, ``counted`` and ``Column``, found by its syntax; those of the web page's
templates, found by Jinja's own extractor; and what rules, planner and sources write in plain text
(``told_texts``).
"""

import ast
import io
import sys
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po
from jinja2.ext import babel_extract

from gputailor_agent.model.inventory import TaskClass
from gputailor_agent.model.judgement import Confidence, Severity
from gputailor_agent.model.ledger import State
from gputailor_agent.reports.catalogues import DOMAIN, ENGLISH, TOLD, names
from gputailor_agent.reports.told_texts import called, told_texts
from gputailor_agent.reports.translating import CUTS, PATTERNS
from gputailor_agent.reports.wording import messages
from gputailor_agent.rules import Rule, cluster_registry, registry

if TYPE_CHECKING:
    from gputailor_agent.rules.cluster_rules import ClusterRule

PACKAGE: Final = Path(str(resources.files("gputailor_agent")))
LOCALE: Final = PACKAGE / "locale"
TEMPLATE: Final = LOCALE / f"{DOMAIN}.pot"
#: What marks texts in its source: parts of the package, and modules.
_MARKED: Final = (
    *("reports", "api"),
    *(f"cli/{name}.py" for name in ("engine_facts", "host_facts")),
    *(f"cli/{name}.py" for name in ("diff", "export", "nodes", "workloads")),
)
_WIDTH: Final = 100
#: Words that code puts together: lengths of time, and what a price is per.
_NOUNS: Final = ("day", "hour", "minute", "second")
_WORDS: Final = ("month", "hour", "GPU-hour", "gpu-hour")

Text = str | tuple[str, str]  # a text, or the two forms of what is counted


@cache
def texts() -> dict[Text, set[str]]:
    """Every text to translate with the files it comes from; the source is read once."""
    found: dict[Text, set[str]] = {}
    for text, where in _every():
        if text and text != ("", ""):
            found.setdefault(text, set()).add(where)
    return found


def _every() -> Iterator[tuple[Text, str]]:
    yield from _registered()
    yield from _words()
    for part in _MARKED:
        place = PACKAGE / part
        for path in sorted(place.rglob("*.py")) if place.is_dir() else (place,):
            yield from _marked(path)
        for path in sorted(place.rglob("*.html")):
            yield from _of_page(path)
    yield from told_texts(PACKAGE)


def _registered() -> Iterator[tuple[Text, str]]:
    """Templates of messages, and what rules and their thresholds are called."""
    for key, template in messages().items():
        yield template, f"messages/{key.split('.', maxsplit=1)[0]}"
    every: tuple[Rule | ClusterRule, ...] = (*registry(), *cluster_registry())
    for rule in every:
        yield rule.title, f"rules/{rule.id}"
        for threshold in rule.thresholds:
            yield threshold.meaning, f"rules/{rule.id}"
            yield threshold.unit.replace("_", " "), "units"


def _words() -> Iterator[tuple[Text, str]]:
    """Words that stand alone or that code puts together."""
    for text in (*_WORDS, *CUTS):
        yield text, "words"
    for text in PATTERNS:
        yield text, f"{TOLD}words"
    for noun in _NOUNS:
        yield (f"{{number}} {noun}", f"{{number}} {noun}s"), "words"
    for kind in (Severity, Confidence, State, TaskClass):
        for value in kind:
            yield str(value.value), kind.__name__


def _calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node, called(node)


def _marked(path: Path) -> Iterator[tuple[Text, str]]:
    """Texts in ``_(...)``, nouns in ``counted(...)``, titles in ``Column(...)``."""
    where = str(path.relative_to(PACKAGE))
    for call, name in _calls(path):
        given = {word.arg: word.value for word in call.keywords}
        if name in {"_", "text"} and call.args:
            yield _literal(call.args[0]), where
        elif name == "counted" and len(call.args) > 1:
            noun = _literal(call.args[1])
            yield (f"{{number}} {noun}", f"{{number}} {noun}s") if noun else "", where
        elif name == "Column" and "title" in given:
            yield _literal(given["title"]), where


def _of_page(path: Path) -> Iterator[tuple[Text, str]]:
    where = str(path.relative_to(PACKAGE))
    options = {"trimmed": "true", "extensions": "jinja2.ext.i18n"}
    with path.open("rb") as file:
        for _line, _function, told, _comments in babel_extract(
            file, ("_", "text", "gettext"), (), options
        ):
            yield str(told[0] if isinstance(told, tuple) else told or ""), where


def _literal(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def template() -> Catalog:
    """The catalogue of every text, without translations."""
    made = Catalog(project="gputailor", domain=DOMAIN, charset="utf-8", fuzzy=False)
    for text, places in texts().items():
        made.add(text, locations=[(place, 0) for place in sorted(places)])
    return made


def updated(name: str) -> Catalog:
    """The catalogue of a language with every text there is and none that is gone."""
    path = _path(name)
    if path.exists():
        with path.open("rb") as file:
            known = read_po(file, locale=name, domain=DOMAIN)
    else:
        known = Catalog(locale=name, domain=DOMAIN, fuzzy=False)
    made = Catalog(locale=name, project="gputailor", domain=DOMAIN, charset="utf-8", fuzzy=False)
    for one in template():
        if not one.id:
            continue
        told = known.get(one.id if isinstance(one.id, str) else one.id[0])
        made.add(one.id, told.string if told else None, locations=one.locations)
    return made


def _path(name: str) -> Path:
    return LOCALE / name / "LC_MESSAGES" / f"{DOMAIN}.po"


def _bytes(one: Catalog) -> bytes:
    """As a file: sorted, without line numbers and dates, so that only texts make a difference."""
    out = io.BytesIO()
    write_po(out, one, width=_WIDTH, sort_output=True, include_lineno=False, omit_header=True)
    head = (
        'msgid ""\nmsgstr ""\n"Project-Id-Version: gputailor\\n"\n'
        '"MIME-Version: 1.0\\n"\n"Content-Type: text/plain; charset=utf-8\\n"\n'
        '"Content-Transfer-Encoding: 8bit\\n"\n'
    )
    if one.locale is not None:
        head += f'"Language: {one.locale}\\n"\n"Plural-Forms: {one.plural_forms}\\n"\n'
    return f"{head}\n".encode() + out.getvalue()


def files() -> dict[Path, bytes]:
    """Every catalogue's file as it should be."""
    made = {TEMPLATE: _bytes(template())}
    return made | {_path(name): _bytes(updated(name)) for name in names() if name != ENGLISH}


def main() -> int:
    """Write the files, or with ``--check`` tell which would change; returns the exit code."""
    wrong = 0
    for path, text in files().items():
        if path.exists() and path.read_bytes() == text:
            continue
        wrong = 1
        if "--check" not in sys.argv[1:]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        sys.stdout.write(f"{path.relative_to(PACKAGE)}\n")
    return wrong if "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
