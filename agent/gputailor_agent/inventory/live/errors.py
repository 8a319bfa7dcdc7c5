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


_OWN_KEY: Final = "log in again, or mend client-certificate and client-key in the kubeconfig"
_AUTHORITY: Final = "is certificate-authority the cluster's own, and the address one it is for?"
#: What a transport error holds, whether asking again may help, what to look at; the first counts.
_LOST: Final = (
    ("PEM LIB", False, _OWN_KEY),
    ("KEY_VALUES_MISMATCH", False, _OWN_KEY),
    ("WRONG_VERSION_NUMBER", False, "no TLS is spoken there: an API server, or http://?"),
    ("CERTIFICATE", False, _AUTHORITY),
    ("SSL", False, _AUTHORITY),
    ("PROXY", True, "does the proxy run (proxy-url, HTTPS_PROXY), and is it the way there?"),
    ("", True, "is the address right, the network (VPN) up and the API server running?"),
)
#: Whom an API server takes somebody for who shows nothing.
_NOBODY: Final = "system:anonymous"
_WANTS_TLS: Final = "HTTP request to an HTTPS server"


def lost_advice(error: str) -> tuple[bool, str]:
    """Whether a connection that was lost like this is worth another try, and what to look at."""
    return next((passing, advice) for told, passing, advice in _LOST if told in error.upper())


def refused_advice(status: int, message: str, where: str) -> str:
    """What to do about an answer other than success; '' where the message says it all."""
    if status == UNAUTHORISED:
        return f"; the credentials of {where} were refused: log in again"
    if status == FORBIDDEN and _NOBODY in message:
        return f"; {where} has no credentials: log in, or give its user a token or a certificate"
    if status == FORBIDDEN:
        return f"; asked as {where}: grant it, see docs/kubernetes.md"
    if _WANTS_TLS in message:
        return f"; write https:// before the server's address in {where}"
    return ""


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
