"""The setting of where the store is, by a file: its address holds a password.

A variable of the environment is there to read for whoever may enter the container, a setting in a
ConfigMap for more people still; a mounted Secret is read by the process alone.
"""

from pathlib import Path
from typing import Any

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings


class PlaceKeys(BaseSettings):
    """The key that names the file; what it holds becomes the setting ``store``."""

    store_file: Path | None = Field(
        None,
        description="File with the database's URL, in place of `store`: a mounted Secret.",
    )

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        """What the file says is where the store is; raises ``ValueError`` for a second place."""
        file = given.get("store_file") if isinstance(given, dict) else None
        if not file or not isinstance(file, str | Path):
            return given  # nothing given, or nothing that names a file, which the field tells
        if given.get("store"):
            raise ValueError("store and store_file both say where the store is; give one of them")
        try:
            url = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"store_file: cannot read {file}: {error}") from error
        if not url:
            raise ValueError(f"store_file: {file} is empty; expected the URL of a database")
        return {**given, "store": url}
