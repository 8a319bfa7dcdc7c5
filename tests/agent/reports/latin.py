"""English that is left in a text of another language: words that are no names.

A word of Latin letters is a name where it has a capital inside (``PyTorch``, ``GPU``), is part of
an identifier (``nvidia.com/gpu``, ``--since``, ``cost_ratio``), stands in code, or is one of
``latin_names.txt``.
"""

import re
from collections.abc import Collection
from functools import cache
from html import unescape
from pathlib import Path

from gputailor_agent.rules import cluster_registry, registry
from gputailor_exporter.metrics import Signal

#: Programs, products, makers and their words, units, and symbols of formulas.
NAMES = frozenset(Path(__file__).with_name("latin_names.txt").read_text(encoding="utf-8").split())
_CODE = re.compile(r"(?s)```.*?```|`[^`\n]*`|<pre.*?</pre>|<code.*?</code>|<style.*?</style>")
_MARKUP = re.compile(r"<[^>]*>")
#: Addresses, and commands to the end of the line.
_ADDRESS = re.compile(
    r"https?://[^\s\uff09)]+|(?:kubectl|gputailor|nvidia-smi) -?[a-z]+[^\uff09\u3002\uff0c*]*"
)
#: Letters with nothing around that would make them part of an identifier.
_WORD = re.compile(r"(?<![\w./:=@$*{&'-])[A-Za-z][A-Za-z']*(?![\w/=@*}(-]|[.:][\w/])")


def words_left(text: str, known: Collection[str] = ()) -> list[str]:
    """English words of a text, each with some of what stands around it."""
    allowed = NAMES | _named() | set(known)
    found = []
    text = _CODE.sub(" ", text.replace("\\", ""))
    for line in unescape(_MARKUP.sub("\n", text)).splitlines():
        plain = _ADDRESS.sub(" ", line)
        for match in _WORD.finditer(plain):
            word = match.group()
            if len(word) > 1 and word not in allowed and word[1:].islower():
                start = max(0, match.start() - 40)
                found.append(f"{word}: …{plain[start : match.end() + 40]}…")
    return found


@cache
def _named() -> frozenset[str]:
    """Names of rules, of their thresholds and of signals."""
    rules = (*registry(), *cluster_registry())
    thresholds = {one.name for rule in rules for one in rule.thresholds}
    return frozenset({rule.id for rule in rules} | thresholds | set(map(str, Signal)))
