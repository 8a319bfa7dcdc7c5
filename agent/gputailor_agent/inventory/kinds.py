"""What is known of object kinds by name; the facts are in ``kinds.yaml``."""

from functools import cache
from importlib import resources as packaged

import msgspec
import yaml


class KindRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind. ``weak``: its task class gives way to what images and commands say."""

    life: str = "run"
    task: str = ""
    weak: bool = False
    framework: str = ""


class Promotion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How pods' labels tell what stands above an owner whose object is missing."""

    below: tuple[str, ...]
    label: str
    api_version: str
    kind: str = ""
    kind_label: str = ""


class Hashed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a generated owner's name tells its maker's."""

    below: str
    label: str
    kind: str
    api_version: str


class KindTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of ``kinds.yaml``."""

    kinds: dict[str, KindRow]
    passive: frozenset[str]
    promotions: tuple[Promotion, ...]
    hashed: tuple[Hashed, ...]
    revisions: tuple[str, ...]
    members: tuple[str, ...]


@cache
def kind_table() -> KindTable:
    """The packaged table of kinds."""
    text = packaged.files(__package__).joinpath("kinds.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), KindTable)


def is_passive(kind: str, api_version: str = "") -> bool:
    """Whether such objects neither are nor make pods. Knative's Service makes some."""
    return kind in kind_table().passive and not api_version.startswith("serving.knative.dev/")


def known_kind(kind: str) -> KindRow:
    """What is known of a kind; an unknown one is a run."""
    return kind_table().kinds.get(kind, KindRow())
