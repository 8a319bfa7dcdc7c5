"""Runs the packaged Alembic migrations inside a transaction that is already open."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(connection: Connection) -> None:
    """Bring the database behind ``connection`` to the newest schema; the caller commits."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def newest() -> str | None:
    """Name of the newest migration."""
    return ScriptDirectory.from_config(_config()).get_current_head()
