"""Alembic migrations of the store; ``store.migrating`` runs them."""
