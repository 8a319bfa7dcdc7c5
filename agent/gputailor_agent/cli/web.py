"""Settings of the web page and API: who is let in.

From the environment and the file only, as those of delivery: a command line is there for every user
of a machine to read. On this machine's own address nobody has to say who he is, unless something
here is set; on any other address the agent does not start without one of them. In a pod, where
nothing is set, it starts and answers probes and Prometheus only: everything else says what to set.
"""

import re
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from gputailor_agent.api.doors import NOBODY, AccessError, Doors, Followed, TokenFile, read_access
from gputailor_agent.api.doors.proxies import DEFAULT_HEADER, Proxies, networks
from gputailor_agent.cli.errors import UsageError

_LOOPBACK: Final = re.compile(r"127(\.\d{1,3}){3}|::1|localhost")
_HEADER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
ACCESS: Final = "web_access_file"


class WebKeys(BaseSettings):
    """Keys of the agent's settings that say who may see and change what by HTTP."""

    web_token_file: Path | None = Field(
        None,
        description="File with bearer tokens for page and API, one a line, `TOKEN` or "
        "`NAME TOKEN`; read again when it changes. A mounted Secret.",
    )
    web_trusted_proxies: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Addresses or networks of proxies that say in a header who the user is, "
        "separated by commas; from all others the header counts for nothing.",
    )
    web_user_header: str = Field(
        DEFAULT_HEADER, description="The header in which a trusted proxy names the user."
    )
    web_access_file: Path | None = Field(
        None,
        description="YAML file: which names (of tokens and users) see everything or some teams; "
        "read again when it changes. Without it everybody who has a name sees everything.",
    )
    web_anonymous: bool = Field(
        default=False,
        description="Whoever reaches the address may read everything without a name; nobody may "
        "change anything without one. On this machine's own address it is so by itself.",
    )
    web_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Names by which browsers may ask an agent that listens for its own machine "
        "only, beside localhost and that of public_url, separated by commas.",
    )

    @field_validator("web_trusted_proxies", "web_hosts", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        """A list, or one text with commas."""
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("web_trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        networks(value)
        return value

    @field_validator("web_user_header")
    @classmethod
    def _header(cls, value: str) -> str:
        if not _HEADER.fullmatch(value):
            raise ValueError(
                f"expected a header's name such as {DEFAULT_HEADER}, found {value[:60]!r}"
            )
        return value


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return _LOOPBACK.fullmatch(host) is not None


def doors(keys: WebKeys, host: str, *, public_url: str = "", pod: bool = False) -> Doors:
    """Who is let in by an agent that listens at ``host``; raises ``UsageError``.

    ``pod``: the agent runs in a pod, where probes must be answered whatever is set.
    """
    named = keys.web_token_file is not None or bool(keys.web_trusted_proxies)
    here = is_loopback(host)
    if keys.web_access_file is not None and not named:
        raise UsageError(
            f"{ACCESS} says what names may see, but nobody has one: set web_token_file or "
            "web_trusted_proxies as well"
        )
    if not (here or named or keys.web_anonymous or pod):
        raise UsageError(
            f"--listen: {host or '0.0.0.0'} can be reached by others, and nothing says who may "
            "read: set web_token_file (tokens), web_trusted_proxies (a proxy that knows its "
            "users), or web_anonymous: true (everybody may read); or listen on 127.0.0.1"
        )
    try:
        return _doors(keys, here=here, named=named, public_url=public_url)
    except AccessError as error:
        raise UsageError(str(error)) from error


def _doors(keys: WebKeys, *, here: bool, named: bool, public_url: str) -> Doors:
    tokens = access = None
    if keys.web_token_file is not None:
        tokens = TokenFile(keys.web_token_file)
        tokens.read()
    if keys.web_access_file is not None:
        access = Followed(keys.web_access_file, read_access, NOBODY, ACCESS)
        access.read()
    hosts = frozenset(one.lower() for one in (*keys.web_hosts, urlsplit(public_url).hostname or ""))
    return Doors(
        anonymous=keys.web_anonymous or (here and not named),
        hosts=hosts - {""} if here and not keys.web_anonymous else None,
        tokens=None if tokens is None else tokens.now,
        proxies=Proxies(
            networks=networks(keys.web_trusted_proxies), header=keys.web_user_header.lower()
        ),
        access=None if access is None else access.now,
    )
