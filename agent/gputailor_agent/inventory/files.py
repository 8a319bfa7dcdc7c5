"""Inventory from files: what `kubectl get … -o json|yaml` printed, or manifests from a repository.

Given the same files and ``at`` the answer is the same; no cluster is asked.
"""

from collections.abc import Iterable
from pathlib import Path

from gputailor_agent.inventory.documents import read_documents
from gputailor_agent.inventory.gathering import Gathering
from gputailor_agent.model.inventory import Inventory


def read_inventory(paths: Iterable[Path | str], cluster: str, at: float) -> Inventory:
    """Everything the files and folders ask for, as of ``at`` (Unix seconds).

    Never raises for what is in a file: ``problems`` of the answer say file, document, line, what
    was expected and what to do.
    """
    gathering = Gathering(cluster)
    for document in read_documents(Path(path) for path in paths):
        gathering.add(document)
    return gathering.inventory(at)
