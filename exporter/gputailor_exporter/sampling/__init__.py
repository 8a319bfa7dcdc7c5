"""What keeps the beat: discovery, device threads, loops, clocks, and what they count.

``gputailor_exporter.sampler`` puts them together.
"""
