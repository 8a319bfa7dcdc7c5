"""Numbers with their words: one place, so that no text says ``1 days`` or ``1 GPU were``.

Who writes a sentence himself calls ``counted``; templates are mended by ``agreed`` once they are
filled. Nouns of ours are regular: a plural ends in s. Other languages have their forms of what is
counted in their catalogue, and templates that say ``GPU(s)`` are translated without.
"""

import re
from typing import Final

from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import spoken

#: Plural verbs that templates use of counted things, with their singular.
_VERBS: Final = {
    "were": "was",
    "are": "is",
    "have": "has",
    "draw": "draws",
    "wait": "waits",
    "work": "works",
    "do": "does",
    "hold": "holds",
}
#: What is counted in our sentences.
NOUNS: Final = (
    *("GPUs", "runs", "days", "replicas", "pods", "workloads", "samples", "exporters", "checks"),
    *("containers", "cards", "rows", "nodes", "jobs", "devices", "hours", "minutes", "kinds"),
    "ones",
)
#: What may stand between a number and its noun.
WORDS: Final = "(?:(?:completed|conservation|full|hourly|UTC|more|other|whole) ){0,2}"
_ANY_NOUN: Final = "|".join(NOUNS)
_ONE: Final = r"(?<![\d.,:-])1"
#: ``8 GPU(s)``: the template leaves the plural to the number before it.
_OPEN: Final = re.compile(r"(?P<number>\d[\d,.]*) (?P<noun>\w+)\(s\)")
#: ``1 completed runs``: a plural that is always written so.
_PLURAL: Final = re.compile(rf"{_ONE} (?P<words>{WORDS})(?P<noun>{_ANY_NOUN})\b")
#: ``1 of 8 GPUs were``: the verb goes with the number in front.
#: What stands between the noun and the verb may be what the things are called: ``A100 SXM4 80GB``.
_NAMED: Final = r"(?: [A-Z\d][\w./-]*){0,5}(?: of pool \S+)?"
_SUBJECT: Final = rf"(?: of \d[\d,.]*)? {WORDS}(?:{_ANY_NOUN.replace('s|', 's?|')}?){_NAMED}"
_VERB: Final = re.compile(rf"{_ONE}(?P<words>{_SUBJECT}) (?P<verb>{'|'.join(_VERBS)})\b")
_SECONDS: Final = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"))


def counted(number: float, noun: str) -> str:
    """``1 GPU``, ``8 GPUs``, ``1.5 GPUs``; thousands are separated."""
    told = units.count(number)
    form = spoken().plural(f"{{number}} {noun}", f"{{number}} {noun}s", 1 if told == "1" else 2)
    return form.replace("{number}", told)


def agreed(text: str) -> str:
    """A filled text in which nouns and verbs go with their numbers; other languages as it is."""
    if not spoken().english:
        return text
    text = _OPEN.sub(lambda one: _noun(one["number"], one["noun"]), text)
    text = _PLURAL.sub(lambda one: f"1 {one['words']}{one['noun'][:-1]}", text)
    return _VERB.sub(lambda one: f"1{one['words']} {_VERBS[one['verb']]}", text)


def _noun(number: str, noun: str) -> str:
    return f"{number} {noun}" if number == "1" else f"{number} {noun}s"


def length(seconds: float) -> str:
    """A length of time in one whole number and one word: ``14 days``, ``36 hours``, ``1 minute``.

    The unit is the largest of which there are two, or exactly one.
    """
    for size, noun in _SECONDS:
        if seconds >= 2 * size or round(seconds) == size:
            return counted(round(seconds / size), noun)
    return counted(round(seconds), "second")
