"""Kubelet's PodResources API: the wire, the ids in its answers, answers that are half.

``gputailor_exporter.pods`` puts them together.
"""
