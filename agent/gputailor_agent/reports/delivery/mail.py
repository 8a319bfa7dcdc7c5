"""Mails: plain text, HTML and the JSON document in one message, and the way to the server.

``email.policy.SMTP`` refuses a line break in a header; subjects and names are cleaned before, so
no name of a cluster or workload can add a header. A mail keeps its Message-ID and date however
often it is tried, so that receivers can tell a repetition.
"""

import gzip
import hashlib
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import Final

from gputailor_agent.model.trust import trusting
from gputailor_agent.reports.delivery.content import Content
from gputailor_agent.reports.delivery.settings import MailServer, domain_of

#: A JSON document above this is attached compressed.
PLAIN_BYTES: Final = 1_000_000
#: How long the server may take to accept a whole mail: giving up early is what sends mails twice.
ACCEPT_SECONDS: Final = 120.0

#: Not every server passes eight bits on; and a subject that is not folded is shown as it is.
_POLICY: Final = SMTP.clone(cte_type="7bit", max_line_length=200)
_SHOWN: Final = 300


class SendError(Exception):
    """A message was not taken. ``everyone``: the next one would fare no better."""

    def __init__(self, text: str, *, everyone: bool) -> None:
        super().__init__(text)
        self.everyone = everyone


def message_id(key: tuple[str, ...], mail_from: str) -> str:
    """The Message-ID of a key (period, scope, channel, recipient)."""
    digest = hashlib.sha256("\x1f".join(key).encode()).hexdigest()[:40]
    return f"<{digest}@{domain_of(mail_from) or 'gputailor.invalid'}>"


def build(content: Content, *, mail_from: str, recipient: str, identity: str) -> EmailMessage:
    """The mail to one recipient; ``identity`` is its Message-ID."""
    mail = EmailMessage(policy=_POLICY)
    mail["Subject"] = content.subject
    mail["From"] = mail_from
    mail["To"] = recipient
    mail["Date"] = format_datetime(datetime.fromtimestamp(content.made_at, UTC))
    mail["Message-ID"] = identity
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office answers, please
    mail["List-Id"] = list_id(content, mail_from)
    mail["X-Gputailor-Period"] = content.period
    mail.set_content(content.plain or content.text)
    mail.add_alternative(content.html, subtype="html")
    document = content.document.encode()
    if len(document) > PLAIN_BYTES:
        mail.add_attachment(
            gzip.compress(document, mtime=0),
            maintype="application",
            subtype="gzip",
            filename=f"{content.name}.json.gz",
        )
    else:
        mail.add_attachment(
            document, maintype="application", subtype="json", filename=f"{content.name}.json"
        )
    return mail


def list_id(content: Content, mail_from: str) -> str:
    """The list a mail belongs to (RFC 2919), by kind and cluster, so that it can be filed away.

    Nobody reads an address of ours, so no ``List-Unsubscribe`` is promised: notices tell the
    annotation that ends them.
    """
    cluster = "".join(
        mark if mark.isascii() and mark.isalnum() else "-" for mark in content.cluster
    )
    parts = (content.kind, cluster[:63].strip("-") or "cluster", "gputailor")
    return f"<{'.'.join(parts).lower()}.{domain_of(mail_from) or 'localhost'}>"


@contextmanager
def connected(server: MailServer) -> Iterator[smtplib.SMTP]:
    """A session that is encrypted and logged in as the settings say; raises ``SendError``."""
    try:
        session = _open(server)
    except (OSError, smtplib.SMTPException) as error:
        raise SendError(_told(error, server), everyone=True) from None
    try:
        yield session
    finally:
        try:
            session.quit()
        except (OSError, smtplib.SMTPException):
            session.close()


def _open(server: MailServer) -> smtplib.SMTP:
    wait = server.timeout_seconds
    session: smtplib.SMTP
    if server.tls == "tls":
        context = _trust(server)
        session = smtplib.SMTP_SSL(server.host, server.port, timeout=wait, context=context)
    else:
        session = smtplib.SMTP(server.host, server.port, timeout=wait)
    try:
        if server.tls == "starttls":
            session.starttls(context=_trust(server))
        if server.username:
            session.login(server.username, server.password)
    except BaseException:
        session.close()
        raise
    return session


def _trust(server: MailServer) -> ssl.SSLContext:
    context = trusting()
    if server.ca_file:
        context.load_verify_locations(server.ca_file)
    return context


def send(session: smtplib.SMTP, mail: EmailMessage, server: MailServer) -> None:
    """Send one mail; returns once the server has answered 250, raises ``SendError`` otherwise."""
    envelope_from = parseaddr(str(mail["From"]))[1]
    try:
        if session.sock is not None:
            session.sock.settimeout(ACCEPT_SECONDS)
        session.sendmail(envelope_from, [str(mail["To"])], mail.as_bytes())
    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPDataError) as error:
        raise SendError(_told(error, server), everyone=False) from None
    except (OSError, smtplib.SMTPException) as error:
        raise SendError(_told(error, server), everyone=True) from None


def _told(error: Exception, server: MailServer) -> str:
    """What happened, in one line without secrets."""
    where = f"{server.host}:{server.port}"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code, text = next(iter(error.recipients.values()))
        return f"{where} refused the recipient: {code} {_clean(text, server)}"
    if isinstance(error, smtplib.SMTPResponseException):
        step = "the login" if isinstance(error, smtplib.SMTPAuthenticationError) else "the mail"
        return f"{where} refused {step}: {error.smtp_code} {_clean(error.smtp_error, server)}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {where} is not trusted: {error.verify_message}; give its "
            "authority with smtp_ca_file"
        )
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return f"{where} cannot do what is asked: {_clean(str(error), server)} (see smtp_tls)"
    return f"{where} cannot be reached: {_clean(str(error), server) or type(error).__name__}"


def _clean(text: bytes | str, server: MailServer) -> str:
    decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    for secret in filter(None, (server.password,)):
        decoded = decoded.replace(secret, "…")
    return " ".join(decoded.split())[:_SHOWN]
