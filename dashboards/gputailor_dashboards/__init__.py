"""Grafana dashboards of GPU Tailor, generated with grafanalib from the names of its metrics."""
