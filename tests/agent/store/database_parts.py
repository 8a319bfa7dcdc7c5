"""Looks into a store past its own reading."""

from sqlalchemy import func, select


def count(store, table):
    """Rows of a table."""
    with store._engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(table))
