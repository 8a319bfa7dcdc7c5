"""One answer in the format asked for: a document for people, or its values as JSON."""

from typing import Annotated, Any, Final

import msgspec
import typer

from gputailor_agent.cli import options
from gputailor_agent.cli.errors import UsageError
from gputailor_agent.cli.terminal import answer, look
from gputailor_agent.reports import console, markdown
from gputailor_agent.reports.document import Document

FORMATS: Final = ("table", "markdown", "json")

Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        help="Format: table, markdown or json (all figures with their sources).",
        autocompletion=lambda: list(FORMATS),
        rich_help_panel=options.ANSWER,
    ),
]


def show(output: str, document: Document, values: Any) -> None:
    """Print the document, or ``values`` as JSON; raises ``UsageError`` for another format."""
    if output == "json":
        answer(msgspec.json.format(msgspec.json.encode(values), indent=2).decode())
    elif output == "markdown":
        answer(markdown.draw(document))
    elif output == "table":
        answer(console.draw(document, look()))
    else:
        raise UsageError(f"--output: expected {', '.join(FORMATS)}, found {output!r}")
