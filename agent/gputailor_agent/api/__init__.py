"""HTTP: the report as a page and as JSON, health, and the agent's own metrics."""
