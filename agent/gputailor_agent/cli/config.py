"""``gputailor config``: which settings are in force and where each came from, and their schema."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml
from pydantic import SecretStr

from gputailor_agent.cli.settings import AgentSettings, load_settings, read_file
from gputailor_agent.cli.terminal import answer, tell
from gputailor_agent.cli.validating import NO_USAGE, faults, measures, refuse
from gputailor_agent.model.addresses import public, without_secrets
from gputailor_agent.store import database

_HIDDEN: Final = "(secret)"
_ADDRESSES: Final = frozenset({"prometheus_url", "public_url", "targets"})
#: Settings whose values may hold secrets, beside those that are declared so.
_MAY_HOLD: Final = frozenset({"prometheus_headers", "prometheus_parameters"})

_EPILOG: Final = """Examples:

  gputailor config show --origin --config agent.yaml

  gputailor config schema > agent.schema.json    # for editors: yaml-language-server and others
"""

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", envvar="GPUTAILOR_CONFIG", help="The agent's settings file, YAML or TOML."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Settings of the agent.")
    group.command("show", epilog=_EPILOG)(show)
    group.command("schema")(schema)
    app.add_typer(group, name="config")


def show(
    *,
    config: Config = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Say where each setting comes from.")
    ] = False,
) -> None:
    """Show the settings the agent would run with; secrets are never shown.

    Flags of serve win over GPUTAILOR_* environment variables, those over the file, that over
    defaults. What serve would refuse is told with exit code 2, all of it.
    """
    settings = load_settings({}, config)
    places = origins(config) if origin else {}
    lines = [_line(name, settings, places) for name in AgentSettings.model_fields]
    answer("\n".join(lines))
    refuse(list(faults(settings)))
    if not measures(settings):
        tell(f"note: {NO_USAGE}")


def schema() -> None:
    """Write the JSON Schema of the settings file, for editors."""
    found = AgentSettings.model_json_schema()
    found["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    answer(json.dumps(found, indent=2))


def origins(config: Path | None) -> dict[str, str]:
    """Where each setting that is not a default comes from: a variable, or a line of the file."""
    given = {name.upper(): name for name in os.environ}
    found: dict[str, str] = {}
    lines = _lines(config)
    for name in AgentSettings.model_fields:
        variable = f"GPUTAILOR_{name.upper()}"
        if variable in given:
            found[name] = f"environment {given[variable]}"
        elif name in lines:
            number = lines[name]
            found[name] = f"{config}:{number}" if number else f"{config}"
    return found


def _lines(config: Path | None) -> dict[str, int]:
    """The line of each key in the file; 0 where that is not known."""
    keys = dict.fromkeys(read_file(config), 0)
    if config is None or config.suffix == ".toml":
        return keys
    node = yaml.compose(config.read_text(encoding="utf-8"))
    for key, _ in getattr(node, "value", ()):
        keys[str(key.value)] = key.start_mark.line + 1
    return keys


def _line(name: str, settings: AgentSettings, places: dict[str, str]) -> str:
    text = yaml.safe_dump(
        {name: shown(name, getattr(settings, name))},
        default_flow_style=True,
        width=10_000,
        allow_unicode=True,
    )
    line = text.strip().removeprefix("{").removesuffix("}")
    return f"{line:<60}  # {places.get(name, 'default')}" if places else line


def shown(name: str, value: Any) -> Any:
    """A setting's value as it may be shown."""
    if isinstance(value, SecretStr):
        return _HIDDEN if value.get_secret_value() else ""
    if isinstance(value, dict):
        hide = name in _MAY_HOLD
        return {key: _HIDDEN if hide else shown(name, each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [shown(name, each) for each in value]
    if isinstance(value, Path):
        return str(value)
    return _text(name, value) if isinstance(value, str) else value


def _text(name: str, value: str) -> str:
    if name == "store":
        return database.shown(database.store_url(value)) if "://" in value else value
    if name in _ADDRESSES:
        return public(value, credentials=f"{_HIDDEN}@")
    return without_secrets(value)
