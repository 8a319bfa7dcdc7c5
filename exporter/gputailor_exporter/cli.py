"""The command ``gputailor-exporter``: runs the exporter, checks a node, or simulates history.

Imports at the top are of the standard library alone, so that a missing extra is said in words.
"""

import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from gputailor_exporter.options import parse_options

STOPPED: Final = 0
FAILED: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 (stopped as asked), 1 (failed) or 2 (wrong usage)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _have_streams()
    try:
        if given[:1] == ["simulate"]:
            return _simulate(given[1:])
        if given[:1] == ["check"]:
            from gputailor_exporter.checking import command  # noqa: PLC0415 - may be missing

            return command.run(given[1:], os.environ)
        options = parse_options(given, os.environ)
        from gputailor_exporter.lifecycle.running import StartError, serve  # noqa: PLC0415 - may be missing

        try:
            return serve(options)
        except StartError as error:
            return _fail(str(error))
        except KeyboardInterrupt:  # while it still started
            return STOPPED
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("gputailor"):
            raise
        return _fail(
            f"the Python module {error.name!r} is not installed. What to do: install the extra "
            "that brings it: pip install 'gputailor[exporter]'"
        )


def _have_streams() -> None:
    """Fill closed standard streams, and let the others take any text.

    A process may be started with some of them closed. The next file or socket would take such a
    one's number, and then the log would be written into the answer to a scrape.
    """
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        stream = getattr(sys, name)
        if stream is None:  # Python found it closed
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper) and mode == "w":
            stream.reconfigure(errors="backslashreplace")


def _fail(text: str) -> int:
    sys.stderr.write(f"gputailor-exporter: {text}\n")
    return FAILED


def _simulate(arguments: Sequence[str]) -> int:
    from argparse import ArgumentParser  # noqa: PLC0415 - the exporter itself needs neither

    from gputailor_exporter.scenarios import simulate  # noqa: PLC0415 - likewise

    parser = ArgumentParser(
        prog="gputailor-exporter simulate",
        description="Writes the history of a scenario as timestamped exposition, one file a node.",
        epilog="example: gputailor-exporter simulate --scenario demo --days 14 --out history "
        "--manifests history/cluster.json, then: gputailor report --archive history --inventory "
        "history/cluster.json",
    )
    simulate.add_arguments(parser)
    return simulate.run(parser.parse_args(arguments))
