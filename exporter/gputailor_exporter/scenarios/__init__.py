"""The simulated cluster: scenario files, hardware, shapes of activity, manifests, history.

``scenarios.scenario`` is the door of the simulated back end, ``scenarios.simulate`` the command.
"""
