"""A pytest plugin: property tests with few examples, so that a mutant's run takes seconds.

The same for the baseline and for mutants, so that times agree. Fewer examples notice less: the
share of mutants killed is that of a quick look, never more.
"""

from typing import Final

import hypothesis

EXAMPLES: Final = 8


def pytest_collection_modifyitems(items):
    """Lower the number of examples of every property test."""
    for item in items:
        test = getattr(item, "obj", None)
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples > EXAMPLES:
            fewer = hypothesis.settings(own, max_examples=EXAMPLES)
            test._hypothesis_internal_use_settings = fewer
