"""What stands between a scrape and a snapshot: sockets, access, negotiation, rendering.

``gputailor_exporter.server`` puts them together.
"""
