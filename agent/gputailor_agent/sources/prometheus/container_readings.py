"""What one hour of a server's memory says of containers themselves and of their nodes."""

import msgspec


class ContainerReading(msgspec.Struct, frozen=True, kw_only=True):
    """What one source says of a container in an hour; names as in ``model.containers``.

    ``container`` is '' where the source knows but the pod. ``counted``: by the names of a row's
    fields.
    """

    source: str
    namespace: str
    pod: str
    container: str
    amounts: dict[str, float] = {}
    peaks: dict[str, float] = {}
    counted: dict[str, float] = {}
    of_engine: bool = False


class NodeReading(msgspec.Struct, frozen=True, kw_only=True):
    """What one source says of a node in an hour."""

    source: str
    node: str
    amounts: dict[str, float] = {}


class ContainerHour(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of an hour; ``problems``: why something is missing, as sentences."""

    containers: tuple[ContainerReading, ...] = ()
    nodes: tuple[NodeReading, ...] = ()
    problems: tuple[str, ...] = ()
