"""Puts dashboards into a Grafana by its HTTP API, with a token of a service account.

By Grafana's documentation ("Dashboard HTTP API", "Folder HTTP API"): a folder is found by its uid
or made; a dashboard is looked up by its uid and left alone where it is the same already. What is
there with another content is refused by Grafana itself (412) unless it is to be overwritten. The
token needs ``dashboards:create``, ``dashboards:write``, ``folders:create`` and ``folders:read``.
"""

import difflib
import json
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final, Self

import httpx

#: What Grafana adds to a dashboard, and what it takes of it for its own.
_GRAFANAS: Final = ("id", "version")
_MESSAGE: Final = "gputailor dashboards import"
_CONTEXT_LINES: Final = 2


class GrafanaError(Exception):
    """Grafana refused or could not be asked; the message says what, where and what to do."""


class Outcome(StrEnum):
    """What became of a dashboard."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DIFFERS = "differs"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Imported:
    """One dashboard: what became of it, and a reason or its address."""

    uid: str
    outcome: Outcome
    said: str = ""

    @property
    def well(self) -> bool:
        """Whether it is now in Grafana as it should be."""
        return self.outcome in {Outcome.CREATED, Outcome.UPDATED, Outcome.UNCHANGED}


class Grafana:
    """A Grafana at ``url``, asked with a token. To be closed, or used by ``with``."""

    def __init__(
        self, url: str, token: str, *, ca_file: str | None = None, timeout_seconds: float = 30
    ) -> None:
        self._url = url.rstrip("/")
        context = ssl.create_default_context(cafile=ca_file)
        # As before Python 3.13: in-house authorities often name no key identifier.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._client = httpx.Client(
            base_url=self._url,
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=timeout_seconds,
            verify=context,
        )

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close its connections."""
        self._client.close()

    def ensure_folder(self, uid: str, title: str) -> None:
        """Make the folder unless it is there; GrafanaError where that is refused."""
        if self._get(f"/api/folders/{uid}") is not None:
            return
        answer = self._send("POST", "/api/folders", {"uid": uid, "title": title})
        # 409 and 412: somebody made it in this moment, or one of that title is there.
        if answer.status_code in {HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED}:
            if self._get(f"/api/folders/{uid}") is None:
                raise GrafanaError(
                    f"folder {title!r} is there under another uid; name it by --folder-uid"
                )
            return
        self._refuse_if_bad(answer, f"folder {title!r}")

    def dashboard(self, uid: str) -> dict[str, Any] | None:
        """Return the dashboard that Grafana has under a uid, None where there is none."""
        found = self._get(f"/api/dashboards/uid/{uid}")
        return None if found is None else dict(found["dashboard"])

    def put(self, dashboard: Mapping[str, Any], folder_uid: str, *, overwrite: bool) -> Imported:
        """Save a dashboard unless it is there already; what is there is kept without overwrite.

        Raises ``GrafanaError`` where it would be the same with every other dashboard: the token is
        refused, or Grafana does not answer.
        """
        uid = str(dashboard["uid"])
        there = self.dashboard(uid)
        if there is not None and same(there, dashboard):
            return Imported(uid, Outcome.UNCHANGED)
        body = {
            "dashboard": {**dashboard, "id": None},
            "folderUid": folder_uid,
            "message": _MESSAGE,
            "overwrite": overwrite,
        }
        answer = self._send("POST", "/api/dashboards/db", body)
        if answer.is_success:
            outcome = Outcome.CREATED if there is None else Outcome.UPDATED
            return Imported(uid, outcome, self._url + str(_json(answer).get("url", "")))
        said = _json(answer)
        if answer.status_code == HTTPStatus.PRECONDITION_FAILED:
            if said.get("status") in {"version-mismatch", "name-exists"}:
                return Imported(uid, Outcome.DIFFERS, str(said.get("message", "")))
            return Imported(uid, Outcome.REFUSED, str(said.get("message", "")))
        return Imported(uid, Outcome.REFUSED, f"{answer.status_code} {said.get('message', '')}")

    def _get(self, path: str) -> dict[str, Any] | None:
        answer = self._send("GET", path)
        if answer.status_code == HTTPStatus.NOT_FOUND:
            return None
        self._refuse_if_bad(answer, path)
        return _json(answer)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            answer = self._client.request(method, path, json=body)
        except httpx.InvalidURL as error:
            raise GrafanaError(f"{self._url} is no address: {error}") from error
        except httpx.HTTPError as error:
            raise GrafanaError(f"{self._url} does not answer: {error}") from error
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            raise GrafanaError(
                f"{self._url} refuses the token (401): it is wrong or has expired; make one in "
                "Administration, Service accounts"
            )
        if answer.status_code == HTTPStatus.FORBIDDEN:
            raise GrafanaError(
                f"{self._url} does not let the token do that (403, {path}): give its service "
                "account the role Editor"
            )
        if answer.is_redirect:
            where = answer.headers.get("location", "")
            raise GrafanaError(
                f"{self._url}{path} leads to {where}: give the address behind it, with its path"
            )
        return answer

    def _refuse_if_bad(self, answer: httpx.Response, what: str) -> None:
        if not answer.is_success:
            said = _json(answer).get("message", "")
            raise GrafanaError(f"{self._url}: {what}: {answer.status_code} {said}")


def _json(answer: httpx.Response) -> dict[str, Any]:
    """The answer's JSON object; GrafanaError where it is none, as of a proxy's page."""
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise GrafanaError(
            f"{answer.url} is no Grafana: {answer.status_code} and no JSON; is the path right?"
        )
    return found


def same(there: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """Whether Grafana has the dashboard, apart from what it numbers itself."""
    return _bare(there) == _bare(ours)


def _bare(dashboard: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in dashboard.items() if key not in _GRAFANAS}


def difference(there: Mapping[str, Any] | None, ours: Mapping[str, Any]) -> Iterator[str]:
    """Lines of a unified diff from what Grafana has to what would be written."""
    uid = ours["uid"]
    yield from difflib.unified_diff(
        [] if there is None else _lines(there),
        _lines(ours),
        f"grafana/{uid}",
        f"gputailor/{uid}",
        lineterm="",
        n=_CONTEXT_LINES,
    )


def _lines(dashboard: Mapping[str, Any]) -> list[str]:
    return json.dumps(_bare(dashboard), indent=2, sort_keys=True).splitlines()


def put_all(
    grafana: Grafana,
    dashboards: Iterable[Mapping[str, Any]],
    folder: tuple[str, str],
    *,
    overwrite: bool,
) -> Iterator[Imported]:
    """Save dashboards into the folder (uid, title), one after another; one that fails stops none.

    Raises ``GrafanaError`` where all would fail.
    """
    uid, title = folder
    grafana.ensure_folder(uid, title)
    for dashboard in dashboards:
        yield grafana.put(dashboard, uid, overwrite=overwrite)
