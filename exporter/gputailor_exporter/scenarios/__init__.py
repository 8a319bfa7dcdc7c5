"""Parts of the simulated cluster: hardware, shapes of activity, reading of the file, manifests.

``gputailor_exporter.scenario`` is the door; nothing outside this package imports these modules.
"""
