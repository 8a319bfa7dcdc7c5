"""Values that the agent's parts hand to each other; no I/O, no clock.

``usage``: what was used (histograms, hourly rows, pages read from sources). ``inventory``: what was
asked (pods, nodes, workloads, runs). ``profile``: one workload over a window. ``judgement``:
findings, silences, plans.
"""
