"""Options that several commands share, declared once and handed on as one value.

A command has one parameter for what they mean together; the options stand in its place.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def spread(
    name: str, maker: Callable[..., object]
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Give a function the parameters of ``maker`` in place of ``name``, which is what it makes."""
    shared = inspect.signature(maker).parameters

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        own = inspect.signature(function).parameters
        parameters: list[inspect.Parameter] = []
        for one, parameter in own.items():
            parameters += shared.values() if one == name else [parameter]

        @functools.wraps(function)
        def called(**given: Any) -> T:
            asked = {one: given.pop(one) for one in shared if one in given}
            return function(**{name: maker(**asked)}, **given)

        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return decorate
