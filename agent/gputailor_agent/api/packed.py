"""The whole report as programs fetch it: encoded once for a plan and a language, and kept packed.

50,000 workloads are 68 MB of JSON and 2 MB of gzip: the packed form is kept, and unpacked piece by
piece for who cannot read it (0.1 s of CPU; encoding takes 1.3 s). An answer that the client has
already costs neither. Nothing is made before somebody asks; who asks meanwhile waits for the same.
"""

import gzip
import hashlib
import re
import threading
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from gputailor_agent.api.tagging import KEEPING, has
from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports import json_report
from gputailor_agent.reports.catalogues import spoken

#: Three times as quick as gzip's default, and a sixth larger.
_LEVEL: Final = 3
_PIECE: Final = 1 << 18
_JSON: Final = "application/json"
#: A weight of 0: never send it so.
_NOTHING: Final = re.compile(r"q\s*=\s*0(?:\.0*)?")


class Packed(NamedTuple):
    """A document in gzip, its length without, and its tag."""

    content: bytes
    length: int
    tag: str

    def pieces(self) -> Iterator[bytes]:
        """The document unpacked."""
        unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        rest = self.content
        while not unpacking.eof:
            yield unpacking.decompress(rest, _PIECE)
            rest = unpacking.unconsumed_tail


class Reports:
    """The reports of one plan by their language."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._made: dict[str, Packed] = {}

    def get(self) -> Packed:
        """The report in the language spoken."""
        name = spoken().name
        with self._lock:
            if name not in self._made:
                self._made[name] = _packed(self._plan)
            return self._made[name]


def _packed(plan: Plan) -> Packed:
    encoded = json_report.encode(json_report.plan_document(plan)).encode()
    tag = hashlib.sha256(encoded).hexdigest()[:32]
    return Packed(gzip.compress(encoded, _LEVEL, mtime=0), len(encoded), tag)


def answer(request: Request, packed: Packed) -> Response:
    """The document as the client can read it, or 304 where it has it."""
    zipped = _reads_gzip(request.headers.get("accept-encoding", ""))
    tag = f"{packed.tag}-gzip" if zipped else packed.tag
    headers = {
        "ETag": f'"{tag}"',
        "Cache-Control": KEEPING["Cache-Control"],
        "Vary": f"{KEEPING['Vary']}, Accept-Encoding",
    }
    asked = request.headers.get("if-none-match", "")
    if has(asked, packed.tag) or has(asked, f"{packed.tag}-gzip"):
        return Response(status_code=304, headers=headers)
    if zipped:
        return Response(
            packed.content, media_type=_JSON, headers=headers | {"Content-Encoding": "gzip"}
        )
    headers["Content-Length"] = str(packed.length)
    return StreamingResponse(packed.pieces(), media_type=_JSON, headers=headers)


def _reads_gzip(accepted: str) -> bool:
    """Whether an ``Accept-Encoding`` header names gzip, or all, with a weight above 0."""
    weights: dict[str, bool] = {}
    for part in accepted.lower().split(","):
        name, _sep, weight = part.partition(";")
        weights[name.strip()] = _NOTHING.fullmatch(weight.strip()) is None
    return weights.get("gzip", weights.get("*", False))
