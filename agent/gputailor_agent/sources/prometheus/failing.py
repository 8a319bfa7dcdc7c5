"""What went wrong between us and a server, in words for a person."""

from typing import Final

import httpx
import msgspec

#: Answers that say "later", of the server or of a proxy in front.
BUSY: Final = frozenset({429, 502, 503, 504})

_EXCERPT: Final = 200
#: Prometheus' status for a query that it understood and could not evaluate.
TOO_LARGE: Final = 422
_ADVICE: Final = {
    401: "the credentials are missing or wrong: give a bearer token or user and password",
    403: "these credentials may not query: ask for read access to the API",
    404: "is this the base address of a Prometheus (without /api/v1)?",
    413: "the proxy in front refuses long queries",
    414: "the proxy in front refuses long addresses: let it pass POST, or longer ones",
    TOO_LARGE: "the server refuses the size of the query (--query.max-samples)",
}
#: How servers say that a query is too large: Prometheus, Mimir and Cortex, Thanos, VictoriaMetrics.
_MUCH: Final = (
    "too many samples",
    "exceeded",
    "exceeds",
    "the limit",
    "max-samples",
    "maxsamples",
    "-search.max",
)


def advice(status: int) -> str:
    """The next step after a status, as the end of a sentence; '' where there is none."""
    return f"; {_ADVICE[status]}" if status in _ADVICE else ""


def shortened(text: str) -> str:
    """As much of a query as fits a line."""
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…"


def too_much(status: int, said: str) -> bool:
    """Whether the server refused a query for its size."""
    words = said.lower()
    return status in {400, TOO_LARGE} and any(one in words for one in _MUCH)


def broken_off(body: bytes) -> bool:
    """Whether an answer began as an API's and then ended before its end."""
    text = body.strip()
    return text.startswith(b'{"status"') and not text.endswith(b"}")


def overloaded(shown: str, status: int, attempts: int) -> str:
    """Words for a server that stayed busy."""
    return (
        f"{shown} answered {status} {attempts} times: it is overloaded or not ready; try later, "
        "or lower the concurrency"
    )


def unreachable(shown: str, timeout_seconds: float, error: httpx.RequestError) -> str:
    """Words for a server that gave no answer, or none that can be unpacked."""
    if isinstance(error, httpx.DecodingError):
        return (
            f"{shown} answered what cannot be unpacked ({error}); is a proxy between that changes "
            "answers, but not their Content-Encoding?"
        )
    if isinstance(error, httpx.TimeoutException):
        return (
            f"{shown} did not answer within {timeout_seconds:g} s; try later, or raise the timeout"
        )
    text = str(error) or type(error).__name__
    tls = "certificate" in text.lower() or "ssl" in text.lower()
    step = "give the CA that signed it" if tls else "is the address right and reachable?"
    return f"{shown} cannot be reached: {text}; {step}"


def stranger(shown: str, response: httpx.Response, body: bytes, error: msgspec.MsgspecError) -> str:
    """Words for an answer that is none of this API."""
    if response.has_redirect_location:
        return _sent_on(shown, response)
    said = " ".join(body.decode("utf-8", "replace").split())[:_EXCERPT]
    if broken_off(body):
        return (
            f"{shown} breaks its answers off ({error}), {len(body):,} bytes in; is a proxy between "
            "that limits their size or time?"
        )
    if response.is_success:
        return (
            f"{shown} is no Prometheus API ({error}); it began: {said!r}"
            " - perhaps a login page stands in front"
        )
    reason = f"{response.status_code} {response.reason_phrase}"
    return f"{shown} answered {reason}{advice(response.status_code)} ({said!r})"


def _sent_on(shown: str, response: httpx.Response) -> str:
    """Words for a redirect, which is not followed: credentials are for the address given."""
    try:
        to = response.url.join(response.headers["Location"])
    except (httpx.InvalidURL, RuntimeError):  # no request is known, as in a test
        return f"{shown} answered {response.status_code}, a redirect to nowhere"
    plain = to.copy_with(username=None, password=None, query=None, fragment=None)
    base, api, _ = str(plain).rpartition("/api/v1/")
    if api:
        return f"{shown} has moved: give its address, {base}"
    return f"{shown} sends us to {plain}, perhaps a login: give credentials, or another address"


def told_pause(response: httpx.Response) -> float:
    """Seconds that the server asks us to wait; 0 where it does not say."""
    try:
        return max(0.0, float(response.headers.get("Retry-After", "0")))
    except ValueError:
        return 0.0
