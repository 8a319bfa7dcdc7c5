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


class AskedContainer(msgspec.Struct, frozen=True, kw_only=True):
    """A container that asked for accelerators; ``pod_uid`` and ``node`` are '' where unknown.

    It may have been there from ``began`` to ``ended`` (Unix seconds), as far as that is known.
    """

    namespace: str
    pod: str
    container: str
    pod_uid: str = ""
    node: str = ""
    began: float | None = None
    ended: float | None = None

    def meets(self, begin: float, end: float) -> bool:
        """Whether it may have been there at some time of (begin, end]."""
        began = self.began is None or self.began < end
        return began and (self.ended is None or self.ended > begin)


class ContainerHour(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of an hour; ``problems``: why something is missing, as sentences.

    ``asked``: containers that no exporter names, though they asked for accelerators.
    """

    containers: tuple[ContainerReading, ...] = ()
    nodes: tuple[NodeReading, ...] = ()
    asked: tuple[AskedContainer, ...] = ()
    problems: tuple[str, ...] = ()
