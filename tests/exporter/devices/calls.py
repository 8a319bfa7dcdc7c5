"""Counts the calls a back end makes, by the name of the binding's function."""

from collections import Counter

import pynvml


def counted_calls(monkeypatch) -> Counter[str]:
    """Return a counter that grows from now on with each call of pynvml."""
    asked: Counter[str] = Counter()

    def counted(name, function):
        def call(*arguments):
            asked[name] += 1
            return function(*arguments)

        return call

    for name in dir(pynvml):
        function = getattr(pynvml, name)
        if name.startswith("nvml") and callable(function) and not isinstance(function, type):
            monkeypatch.setattr(pynvml, name, counted(name, function))
    return asked
