"""Which node of a cluster is meant by what an exporter or a scrape calls it.

Exporters that name no node are known by the address that was scraped (``10.0.0.5:9400``), others by
the kernel's host name, with or without its domain. A node's object lists its addresses; what fits
two nodes fits none.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from gputailor_agent.model.inventory import Inventory, Node
from gputailor_agent.model.usage import Device

_NOBODY: Final = ""


class NodeNames:
    """Finds nodes of one inventory by any of their names."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._of: dict[str, str] = {}
        self._short: dict[str, str] = {}
        nodes = tuple(nodes)
        self._names = {node.name for node in nodes}
        for node in nodes:
            for name in {node.name, *node.addresses}:
                key = _key(name)
                self._one(self._of, key, node.name)
                if not _is_address(key):
                    self._one(self._short, key.partition(".")[0], node.name)

    def find(self, told: str) -> str:
        """The node's name; what was told where no node, or more than one, has it."""
        if told in self._names or not told:
            return told
        key = _key(told)
        found = self._of.get(key)
        if found is None and not _is_address(key):
            found = self._short.get(key.partition(".")[0])
        return found or told

    @staticmethod
    def _one(names: dict[str, str], key: str, node: str) -> None:
        names[key] = node if names.get(key, node) == node else _NOBODY


def placed(devices: Iterable[Device], inventory: Inventory) -> Iterator[Device]:
    """Yield the devices with their nodes as the inventory calls them."""
    names = NodeNames(inventory.nodes)
    for device in devices:
        node = names.find(device.node)
        yield device if node == device.node else msgspec.structs.replace(device, node=node)


def _key(name: str) -> str:
    """A name or an address without port, brackets and the case of its letters."""
    text = name.strip().lower()
    host, colon, port = text.rpartition(":")
    if colon and port.isdigit() and (":" not in host or host.endswith("]")):
        text = host
    text = text.strip("[]")
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text


def _is_address(key: str) -> bool:
    return ":" in key or key.replace(".", "").isdigit()
