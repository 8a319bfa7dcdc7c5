"""What a server's certificate is held against: chain, name and dates, as by other clients.

Since Python 3.13 a default context asks for the whole of RFC 5280 as well (``VERIFY_X509_STRICT``).
The authorities that Kubernetes' distributions make for their API servers (EKS, MicroK8s and others)
and many in-house ones name no key identifier or key usage; Go, curl and browsers take them, and so
do we: kubernetes-client/python#2394, canonical/microk8s#4864.
"""

import ssl
from pathlib import Path


def without_strictness(context: ssl.SSLContext) -> ssl.SSLContext:
    """The context itself, which verifies as before Python 3.13."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def trusting(ca_file: Path | str | None = None) -> ssl.SSLContext:
    """A client's context that trusts ``ca_file`` alone, or the system's authorities without one.

    Raises ``OSError`` or ``ssl.SSLError`` for a file that cannot be used.
    """
    return without_strictness(ssl.create_default_context(cafile=ca_file))
