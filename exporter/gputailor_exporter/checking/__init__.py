"""``gputailor-exporter check``: what can be read on this node, and how to get the rest."""
