"""Names like one that there is not: how every message of ours says what may have been meant."""

import difflib
from collections.abc import Collection, Iterable
from typing import Final

#: Names that are offered.
MOST: Final = 3
#: How alike two names are of which one is offered for the other (difflib's ratio and default).
ALIKE: Final = 0.6


def nearest(
    name: str, known: Iterable[str], *, most: int = MOST, alike: float = ALIKE
) -> list[str]:
    """Known names like ``name``, the most alike first; capitals, dashes and blanks count little."""
    by_form: dict[str, list[str]] = {}
    for one in known:
        by_form.setdefault(_form(one), []).append(one)
    close = difflib.get_close_matches(_form(name), by_form, n=most, cutoff=alike)
    return [one for form in close for one in by_form[form]][:most]


def did_you_mean(name: str, known: Iterable[str], *, most: int = MOST, sign: str = "; ") -> str:
    """``; did you mean A or B?``, or nothing where no known name is like ``name``."""
    near = nearest(name, known, most=most)
    return f"{sign}did you mean {' or '.join(near)}?" if near else ""


def meant_or_known(name: str, known: Collection[str]) -> str:
    """``; did you mean A?``, or where nothing is like it all that there is."""
    return did_you_mean(name, known) or f"; there are: {', '.join(known) or 'none'}"


def _form(name: str) -> str:
    return name.casefold().replace("-", "_").replace(" ", "_")
