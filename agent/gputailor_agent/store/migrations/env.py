"""Alembic's entry: migrates the connection it was handed (see ``store.migrating``)."""

from alembic import context

from gputailor_agent.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
