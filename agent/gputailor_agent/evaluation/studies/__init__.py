"""One study per module: a module with a ``STUDY`` is one, and nothing else lists it."""
