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


def upgrade(connection: Connection, to: str = "head") -> None:
    """Bring the database behind ``connection`` to a schema, the newest; the caller commits."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def newest() -> str | None:
    """Name of the newest migration."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def schemas() -> list[str]:
    """Names of all migrations, oldest first."""
    script = ScriptDirectory.from_config(_config())
    return [one.revision for one in script.walk_revisions()][::-1]
