"""What can go wrong between us and a cluster, in words for a person.

Every text says what happened, where, and what to do. ``passing`` errors are worth another try:
the server was busy, restarting or away.
"""

from typing import Final

#: Answers that say "later": the server was busy, restarting or cut off from its store.
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})

GONE: Final = 410
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
UNAUTHORISED: Final = 401


class ClusterError(Exception):
    """A cluster cannot be asked; the text is written for a person."""

    passing = False
    retry_after_seconds: float | None = None  # what the server asked for


class AccessError(ClusterError):
    """The kubeconfig or the service account cannot be used as it is."""


class NoClusterError(AccessError):
    """Neither a kubeconfig nor a pod's service account is there; files may do as well."""


class UnreachableError(ClusterError):
    """No answer, or half of one: refused, timed out, cut off, or a certificate not trusted."""

    def __init__(self, text: str, *, passing: bool = True) -> None:
        super().__init__(text)
        self.passing = passing


class UnreadableError(ClusterError):
    """An answer that is not what a Kubernetes API server sends."""

    passing = True


class AnswerError(ClusterError):
    """An answer other than success. ``message`` is the server's own."""

    def __init__(
        self, text: str, *, status: int, message: str = "", retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(text)
        self.status = status
        self.message = message
        self.passing = status in _PASSING
        self.retry_after_seconds = retry_after_seconds
