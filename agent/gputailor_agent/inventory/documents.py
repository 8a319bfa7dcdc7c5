"""Files of Kubernetes objects as documents: JSON and YAML, single, many or lists, packed or not.

What cannot be read becomes a problem that names file, document and line, what was expected and what
to do; everything else goes on. JSON lists are split into undecoded items, so that each is decoded
once, straight into the struct its kind needs.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

EXTENSIONS: Final = (".yaml", ".yml", ".json", ".jsonl", ".ndjson")
_EXPECTED: Final = "expected the output of `kubectl get … -o json` or `-o yaml`, or a manifest"

_SPACE: Final = re.compile(r"\s*")

T = TypeVar("T")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML without dates: Kubernetes' times are strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Header(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None


class _Listing(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    items: list[msgspec.Raw] | None = None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One Kubernetes object, still undecoded where it came as JSON."""

    where: str  # "pods.json: item 3"
    kind: str
    api_version: str
    content: Any  # msgspec.Raw or a mapping

    def decode(self, kind: type[T]) -> T:
        """The object as a struct; raises msgspec.ValidationError with the path of a wrong field."""
        if isinstance(self.content, msgspec.Raw):
            return msgspec.json.decode(self.content, type=kind)
        return msgspec.convert(self.content, kind)

    def body(self) -> dict[str, Any]:
        """The whole object as plain values."""
        if isinstance(self.content, msgspec.Raw):
            return msgspec.json.decode(self.content, type=dict[str, Any])
        return dict(self.content)


class Problem(msgspec.Struct, frozen=True):
    """Something that could not be read, said for a person."""

    text: str


Read = Document | Problem


def files_in(paths: Iterable[Path]) -> Iterator[Path | Problem]:
    """The files to read: those named, and in folders everything that looks like JSON or YAML."""
    for path in paths:
        if path.is_dir():
            found = [
                file
                for file in sorted(path.rglob("*"))
                if file.is_file() and file.name.removesuffix(".gz").endswith(EXTENSIONS)
            ]
            yield from found
            if not found:
                yield Problem(
                    f"{path}: no {', '.join(EXTENSIONS)} file in this folder; {_EXPECTED}"
                )
        elif path.exists():
            yield path
        else:
            yield Problem(f"{path}: there is no such file or folder; check the path")


def read_documents(paths: Iterable[Path]) -> Iterator[Read]:
    """Every object of every file, in the order given; lists are taken apart."""
    for path in files_in(paths):
        if isinstance(path, Problem):
            yield path
        else:
            yield from _file(path)


def _file(path: Path) -> Iterator[Read]:
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        yield Problem(f"{path}: cannot be read: {error}; {_EXPECTED}, plain or gzip")
        return
    text = _decoded(content)
    if text is None:
        yield Problem(f"{path}: this is not text (binary content); {_EXPECTED}")
    elif not text.strip():
        yield Problem(f"{path}: is empty; {_EXPECTED}")
    elif text.lstrip()[0] in "{[" and not text.lstrip().startswith("{{"):
        yield from _json(path, text.lstrip())
    else:
        yield from _yaml(path, text)


def _decoded(content: bytes) -> str | None:
    """Text of a file; None for binary. PowerShell writes UTF-16, old editors other code pages."""
    if content[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return content.decode("utf-16", errors="replace")
    if b"\x00" in content[:4096]:
        return None
    return content.decode("utf-8-sig", errors="replace")


def _json(path: Path, text: str) -> Iterator[Read]:
    try:
        yield from _object(str(path), msgspec.Raw(text.encode()), 0)
    except msgspec.DecodeError:
        yield from _json_one_by_one(path, text)


def _json_one_by_one(path: Path, text: str) -> Iterator[Read]:
    """Several JSON objects after each other, as `kubectl get --watch -o json` prints them."""
    decoder, at, number = json.JSONDecoder(), 0, 0
    while at < len(text):
        number += 1
        try:
            value, at = decoder.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError) as error:
            if number == 1 and path.name.removesuffix(".gz").endswith((".yaml", ".yml")):
                yield from _yaml(path, text)
                return
            yield Problem(
                f"{path}: document {number}: not JSON: {error}; {_EXPECTED}. "
                "If the file was cut off, write it again"
            )
            return
        at = _space_ends(text, at)
        yield from _value(f"{path}: document {number}", value)


def _space_ends(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _object(where: str, content: msgspec.Raw, depth: int) -> Iterator[Read]:
    """A JSON object, or the items of a list; raises msgspec.DecodeError for broken JSON."""
    head = bytes(memoryview(content)[:1])
    if head == b"[":
        items: list[msgspec.Raw] | None = msgspec.json.decode(content, type=list[msgspec.Raw])
        listing = _Listing(kind="List")
    else:
        listing = msgspec.json.decode(content, type=_Listing)
        items = listing.items
    kind, version = listing.kind or "", listing.api_version or ""
    if items is None or not (kind.endswith("List") or not kind):
        yield from _single(where, kind, version, content)
        return
    for number, item in enumerate(items, 1):
        at = f"{where}: item {number}"
        try:
            header = msgspec.json.decode(item, type=_Header)
        except msgspec.DecodeError as error:
            yield Problem(f"{at}: {error}; expected a Kubernetes object")
            continue
        item_kind = header.kind or kind.removesuffix("List")
        if item_kind.endswith("List") and depth < 3:  # noqa: PLR2004 - lists of lists of lists
            yield from _object(at, item, depth + 1)
        else:
            yield from _single(at, item_kind, header.api_version or version, item)


def _single(where: str, kind: str, version: str, content: object) -> Iterator[Read]:
    if kind:
        yield Document(where=where, kind=kind, api_version=version, content=content)
    else:
        yield Problem(f"{where}: has no `kind`, so it is no Kubernetes object; {_EXPECTED}")


def _value(where: str, value: object, default_kind: str = "", depth: int = 0) -> Iterator[Read]:
    """An object that is already plain values, or the items of a list of them."""
    if isinstance(value, list):
        value = {"kind": "List", "items": value}
    if not isinstance(value, dict):
        yield Problem(f"{where}: {_not_a_mapping(value)}; {_EXPECTED}")
        return
    kind = str(value.get("kind") or default_kind)
    items = value.get("items")
    if isinstance(items, list) and kind.endswith("List") and depth < 3:  # noqa: PLR2004 - as above
        for number, item in enumerate(items, 1):
            yield from _value(f"{where}: item {number}", item, kind.removesuffix("List"), depth + 1)
    else:
        yield from _single(where, kind, str(value.get("apiVersion") or ""), value)


def _not_a_mapping(value: object) -> str:
    start = str(value)[:60].replace("\n", " ")
    if re.match(r"\s*(?:NAMESPACE\s+)?NAME\s", str(value)):
        return f"this is kubectl's table ({start!r}); run it again with -o json"
    return f"this is a {type(value).__name__} ({start!r}), not an object"


def _yaml(path: Path, text: str) -> Iterator[Read]:
    """YAML documents one by one: a `---` in the first column always separates."""
    lines = text.splitlines(keepends=True)
    starts = [0, *(n for n, line in enumerate(lines) if re.match(r"---(?:\s|$)", line) and n)]
    number = 0
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        chunk = lines[start:end]
        if all(re.match(r"\s*(?:#.*|%.*|---\s*(?:#.*)?|\.\.\.\s*)?$", line) for line in chunk):
            continue
        number += 1
        yield from _chunk(f"{path}: document {number}", "".join(chunk), start + 1)


def _chunk(where: str, chunk: str, line: int) -> Iterator[Read]:
    try:
        values = [value for value in yaml.load_all(chunk, _Loader) if value is not None]
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        yield Problem(_yaml_problem(where, chunk, line, error))
        return
    for value in values:
        yield from _value(f"{where} (line {line})", value)


def _yaml_problem(where: str, chunk: str, line: int, error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    at = line + (mark.line if mark is not None else 0)
    if "{{" in chunk:
        return (
            f"{where} (line {at}): this is an unrendered Helm template; expected plain YAML: "
            "run `helm template CHART > manifests.yaml` and give that file"
        )
    said = getattr(error, "problem", None) or str(error).splitlines()[0]
    lines = chunk.splitlines()
    if mark is not None and mark.line < len(lines) and "\t" in lines[mark.line]:
        said = f"a tab where YAML wants spaces ({said})"
    if re.match(r"\s*(?:NAMESPACE\s+)?NAME\s", chunk):
        said = "this is kubectl's table; run it again with -o json"
    return f"{where} (line {at}): not YAML: {said}; {_EXPECTED}"
