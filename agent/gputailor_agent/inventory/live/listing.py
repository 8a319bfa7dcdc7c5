"""All objects of a kind, page by page.

Pages bound what the server and we hold at once. A continue token lives about five minutes; when it
expired (410) the list starts over, since pages of different moments do not make one picture. The
last attempt asks for everything at once, as client-go's pager does.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from gputailor_agent.inventory.live.client import Client
from gputailor_agent.inventory.live.errors import GONE, AnswerError, UnreadableError

T = TypeVar("T")

PAGE_SIZE: Final = 500
_RESTARTS: Final = 3
_MOST_PAGES: Final = 20_000  # ten million objects; more is a server that repeats itself


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """What a list held, and the version from which a watch goes on."""

    items: tuple[T, ...]
    resource_version: str


def list_objects(
    client: Client,
    path: str,
    take: Callable[[msgspec.Raw], T | None],
    *,
    page_size: int = PAGE_SIZE,
) -> Listing[T]:
    """Every object under ``path`` as ``take`` makes it; None of ``take`` leaves one out.

    Only what ``take`` returns is kept, so a page's text is gone before the next one comes. Raises
    ``ClusterError``.
    """
    for _ in range(_RESTARTS):
        try:
            return _pages(client, path, take, page_size)
        except AnswerError as error:
            if error.status != GONE:
                raise
    return _pages(client, path, take, None)


def _pages(
    client: Client, path: str, take: Callable[[msgspec.Raw], T | None], page_size: int | None
) -> Listing[T]:
    found: list[T] = []
    token = ""
    for _ in range(_MOST_PAGES):
        query = [("limit", str(page_size))] if page_size is not None else []
        query += [("continue", token)] if token else []
        page = client.get(path, _Page, query)
        for item in page.items or ():
            taken = take(item)
            if taken is not None:
                found.append(taken)
        token = page.metadata.continue_ or ""
        if not token:
            return Listing(
                items=tuple(found), resource_version=page.metadata.resource_version or ""
            )
    raise UnreadableError(f"{client.host}{path}: the list does not end; is this an API server?")
