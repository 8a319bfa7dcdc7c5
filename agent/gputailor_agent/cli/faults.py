"""What is wrong with a setting, in words: the library's own texts speak of types of Python.

Each fault names the setting as it stands in the file, what was expected and what was found; what a
secret holds is never repeated.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import SecretStr, ValidationError
from pydantic_settings import BaseSettings
from pydantic_settings.exceptions import SettingsError as SourceError

from gputailor_agent.model.addresses import without_secrets
from gputailor_agent.model.nearest import did_you_mean

_SHOWN: Final = 60
#: Kind of fault -> what was expected; {name} are the library's own figures.
_EXPECTED: Final = {
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number of at most {le:g}",
    "finite_number": "a finite number",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "path_type": "a path",
    "dict_type": "a mapping of names to values",
    "tuple_type": "a list, or one text with commas",
    "list_type": "a list, or one text with commas",
}
_FIELD: Final = re.compile(r'field "(?P<name>\w+)" from source "(?P<source>\w+)"')


def told_faults(error: ValidationError, settings: type[BaseSettings]) -> Iterator[str]:
    """Each fault of settings of this kind as ``NAME: what is wrong``."""
    for fault in error.errors():
        place = ".".join(str(part) for part in fault["loc"])
        told = _told(fault, settings)
        # what does not fit together has no place, and names its settings itself
        yield f"{place}: {told}" if place else told


def told_source(error: SourceError) -> str:
    """A variable of the environment that should hold JSON and does not."""
    found = _FIELD.search(str(error))
    name = f"GPUTAILOR_{found['name'].upper()}" if found else "GPUTAILOR_* environment"
    cause = f" ({error.__cause__})" if error.__cause__ else ""
    return f"{name}: expected JSON{cause}"


def _told(fault: Any, settings: type[BaseSettings]) -> str:
    kind, place = fault["type"], fault["loc"]
    if kind == "extra_forbidden":
        return _unknown(str(place[-1]), settings)
    if kind == "value_error":
        return str(fault["msg"]).removeprefix("Value error, ")
    expected = _EXPECTED.get(kind)
    if expected is None:
        expected = str(fault["msg"]).removeprefix("Input should be ")
    return f"expected {expected.format(**fault.get('ctx', {}))}{_found(fault, settings)}"


def _found(fault: Any, settings: type[BaseSettings]) -> str:
    """What stands there instead, unless it may be a secret."""
    field = settings.model_fields.get(str(fault["loc"][0])) if fault["loc"] else None
    if field is None or field.annotation is SecretStr or "headers" in str(fault["loc"][0]):
        return ""
    return f", found {without_secrets(str(fault['input']))[:_SHOWN]!r}"


def _unknown(name: str, settings: type[BaseSettings]) -> str:
    return f"there is no such setting{did_you_mean(name, settings.model_fields)}"
