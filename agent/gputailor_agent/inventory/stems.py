"""The lasting part of a generated name: random, hex, date and counter parts stripped.

Works on tokens between ``-``, ``.`` and ``_``. The rules prefer to keep: model sizes (70b, 8x22b),
cards (a100), numbers that belong to a model's name (resnet-50, llama-3) and versions (v2) say what
a run is, and two different things joined are worse than one thing in two.
"""

import itertools
import re
from functools import cache, lru_cache
from importlib import resources as packaged
from typing import Final

import msgspec
import yaml

#: Alphabet of Kubernetes' generated suffixes (apimachinery ``rand.String``): no vowels, no 0, 1, 3.
_GENERATED: Final = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]+")
_GENERATED_SUFFIX: Final = 5
_HASH_LENGTHS: Final = range(8, 11)  # pod-template-hash

_UUID: Final = re.compile(
    r"(?<![0-9a-z])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-z])"
)
_DATE: Final = re.compile(
    r"(?<![0-9a-z])(?:19|20)[0-9]{2}[-._]?(?:0[1-9]|1[0-2])[-._]?(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[-._t]?[0-2][0-9][-._]?[0-5][0-9](?:[-._]?[0-5][0-9](?:[-._]?[0-9]{1,6})?)?z?)?(?![0-9a-z])"
)
_GLUED_DATE: Final = re.compile(
    r"(?<=[a-z])20[0-9]{2}(?:0[1-9]|1[0-2])[0-3][0-9](?:[0-9]{4}|[0-9]{6})?(?![0-9a-z])"
)
_HEX: Final = re.compile(r"(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{6,64}")
_SIZE: Final = re.compile(r"[0-9]{1,3}(?:x[0-9]{1,3})?[bmk]|t5x+l")
_TELLING: Final = re.compile(
    r"[0-9]+(?:gb|gib|mb|gpus?|cards?|nodes?|bit|d|h)|v[0-9]+.*|(?:[abhlt]|gb|gh|mi|rtx|gtx|p|rx|cu|"
    r"cuda|py|rocm|sm|cc|fp|bf|int|tp|pp|dp|ep|cp|bs|lr|zero|stage)[0-9]+.*"
)
_COUNTER: Final = re.compile(r"([a-z]+)[0-9]+[a-z]?")
_COUNT: Final = re.compile(r"[a-z]?[0-9]{1,4}[a-z]?")
_LONGEST_MODEL_NUMBER: Final = 3
NOTHING_LEFT: Final = "unnamed"


class StemTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of ``stems.yaml``."""

    numbered: frozenset[str]
    words: frozenset[str]
    counted: frozenset[str]
    counters: frozenset[str]
    models: frozenset[str]


@cache
def stem_table() -> StemTable:
    """The packaged table of telling words."""
    text = packaged.files(__package__).joinpath("stems.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), StemTable)


def _is_generated(token: str, *, last: bool) -> bool:
    """Kubernetes' own suffixes, only where they stand: at the end, or as a template hash."""
    if not _GENERATED.fullmatch(token) or token in stem_table().words:
        return False
    if len(token) == _GENERATED_SUFFIX:
        return last
    return len(token) in _HASH_LENGTHS and (last or any(letter.isdigit() for letter in token))


def _is_mixed(token: str, *, last: bool) -> bool:
    """Letters and digits that change places too often for a word with a number.

    Airflow appends eight random letters and digits: there three changes are enough.
    """
    word = re.match(r"[a-z]*", token)
    if word and word.group(0) in stem_table().numbered:
        return False
    changes = sum(a.isdigit() != b.isdigit() for a, b in itertools.pairwise(token))
    return len(token) >= 6 and changes >= (3 if last and len(token) == 8 else 4)  # noqa: PLR2004


def _takes_number(word: str) -> bool:
    """Whether a short number after this word belongs to its name (llama-3, llama3-1)."""
    numbered = stem_table().numbered
    return word in numbered or word.rstrip("0123456789") in numbered


def _is_counter(token: str, before: str, *, last: bool) -> bool:
    """A number with a letter: ``r41`` at the end of a name, ``7a`` behind ``run``."""
    table = stem_table()
    if before in table.counted:
        return _COUNT.fullmatch(token) is not None
    found = _COUNTER.fullmatch(token)
    counts = last and found is not None and found.group(1) in table.counters
    return counts and not _takes_number(before)


def _is_noise(token: str, before: str, *, last: bool) -> bool:
    if token.isdigit():
        return len(token) > _LONGEST_MODEL_NUMBER or not _takes_number(before)
    if _SIZE.fullmatch(token) or token in stem_table().models:
        return False
    if not _TELLING.fullmatch(token) and _is_counter(token, before, last=last):
        return True
    if _is_generated(token, last=last) or _HEX.fullmatch(token):
        return True
    return not _TELLING.fullmatch(token) and _is_mixed(token, last=last)


@lru_cache(maxsize=65536)
def stem(name: str) -> str:
    """The name without what changes from run to run; ``unnamed`` when nothing else is left.

    ``stem(stem(x)) == stem(x)``; a generated suffix, a hash, a date or a counter added to a name
    does not change its stem.
    """
    text = _GLUED_DATE.sub("", _DATE.sub("\0", _UUID.sub("\0", name.lower())))
    tokens = [token for token in re.split(r"[-._]+|\0", text) if token]
    while True:
        kept = _kept(tokens)
        if kept == tokens:
            return "-".join(kept) or NOTHING_LEFT
        tokens = kept


def _kept(tokens: list[str]) -> list[str]:
    kept: list[str] = []
    for place, token in enumerate(tokens):
        before = kept[-1] if kept else ""
        if _is_noise(token, before, last=place == len(tokens) - 1 and place > 0):
            continue
        word = token.rstrip("0123456789")
        kept.append(word if word in stem_table().counted else token)
    return kept
