"""The command line: one command per file, each with a ``register(app)``.

``entry`` is the way in and imports nothing that an installation without the agent extra lacks.
Further packages add commands through the entry point group ``gputailor.commands``.
"""
