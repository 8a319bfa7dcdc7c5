"""Telling people: one output format per file, and the words, units and explanations they share.

``formats.render(plan, "markdown")`` is the way in. A format registers itself by a module-level
``FORMAT``; ``overview`` holds what every format shows, so that they cannot disagree. Nothing here
decides anything: numbers come from the plan.
"""
