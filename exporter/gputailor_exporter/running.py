"""The exporter's process: starts the parts, serves, and stops cleanly on SIGTERM or SIGINT."""

import logging
import queue
import signal
import sys
import threading
import time
from typing import Final

from gputailor_exporter import __version__
from gputailor_exporter.accounting import AccountingSettings
from gputailor_exporter.assembly import Parts, StartError, assemble
from gputailor_exporter.devices.base import DeviceError
from gputailor_exporter.options import Options
from gputailor_exporter.sampler import Sampler, SamplerSettings
from gputailor_exporter.server import MetricsServer
from gputailor_exporter.webconfig import WebConfig, WebConfigError, load_web_config

log = logging.getLogger(__name__)

#: A driver that has not started within this time hangs; on large nodes it takes some seconds.
OPEN_SECONDS: Final = 60.0

NO_GPU: Final = "Without a GPU: --backend simulated --scenario demo --node a100-0"

__all__ = ["StartError", "serve"]


def serve(options: Options) -> int:
    """Run until a signal asks to stop; returns 0. Raises ``StartError`` when it cannot start."""
    started = time.time()
    logging.basicConfig(
        level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    web = _web_config(options)
    parts = _open(options)
    sampler = _sampler(options, parts, started)
    try:
        server = MetricsServer(options.listen, sampler, web)
    except OSError as error:
        parts.backend.close()
        host, port = options.listen
        raise StartError(
            f"cannot listen on {host}:{port}: {error.strerror or error}. "
            "What to do: choose another address with --listen HOST:PORT"
        ) from error
    _run(sampler, server)
    return 0


def _web_config(options: Options) -> WebConfig:
    if options.web_config is None:
        return WebConfig()
    try:
        return load_web_config(options.web_config)
    except WebConfigError as error:
        raise StartError(str(error)) from error


def _open(options: Options) -> Parts:
    """Open the back end in a thread of its own: a driver may hang for ever at its first call."""
    outcome: queue.SimpleQueue[Parts | Exception] = queue.SimpleQueue()

    def open_parts() -> None:
        try:
            parts = assemble(options)
            parts.backend.open()
        except Exception as error:  # noqa: BLE001 - handed over, not swallowed
            outcome.put(error)
        else:
            outcome.put(parts)

    threading.Thread(target=open_parts, name="open", daemon=True).start()
    try:
        found = outcome.get(timeout=OPEN_SECONDS)
    except queue.Empty:
        raise StartError(
            f"the driver has not answered for {OPEN_SECONDS:g} s. What to do: see whether "
            "`nvidia-smi` answers on the node; if not, look for Xid errors in `dmesg` and restart "
            "the node"
        ) from None
    if isinstance(found, DeviceError):
        hint = f"\n{NO_GPU}" if options.backend == "nvml" else ""
        raise StartError(f"cannot read devices: {found}{hint}") from found
    if isinstance(found, Exception):
        raise found
    return found


def _sampler(options: Options, parts: Parts, started: float) -> Sampler:
    accounting = AccountingSettings(
        interval_seconds=options.interval,
        linger_seconds=options.linger,
        histogram=options.histogram,
    )
    settings = SamplerSettings(options.node, accounting, started_wall=started)
    return Sampler(parts.backend, parts.allocations, parts.attribution, settings)


def _run(sampler: Sampler, server: MetricsServer) -> None:
    stop: queue.SimpleQueue[int] = queue.SimpleQueue()  # the one lock a signal handler may take
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: stop.put(got))
    sampler.start()
    serving = threading.Thread(target=server.serve_forever, name="server", daemon=True)
    serving.start()
    sys.stdout.write(f"listening on {server.url}\n")
    sys.stdout.flush()
    log.info("gputailor-exporter %s is running", __version__)
    log.info("stopping on %s", signal.Signals(stop.get()).name)
    server.shutdown()
    server.server_close()
    sampler.close()
