"""The exporter's process: starts the parts, serves, and stops cleanly on SIGTERM or SIGINT."""

import logging
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

NO_DRIVER: Final = """
What to do: on a GPU node check that `nvidia-smi` works; in a container the NVIDIA runtime must be
in use (runtimeClassName: nvidia) and NVIDIA_VISIBLE_DEVICES=all set, so that libnvidia-ml.so.1 is
there. Without a GPU: --backend simulated --scenario FILE."""

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
    try:
        parts = assemble(options)
        parts.backend.open()
    except DeviceError as error:
        hint = NO_DRIVER if options.backend == "nvml" else ""
        raise StartError(f"cannot read devices: {error} ({error.reason}).{hint}") from error
    return parts


def _sampler(options: Options, parts: Parts, started: float) -> Sampler:
    accounting = AccountingSettings(
        interval_seconds=options.interval,
        linger_seconds=options.linger,
        histogram=options.histogram,
    )
    settings = SamplerSettings(options.node, accounting, started_wall=started)
    return Sampler(parts.backend, parts.allocations, parts.attribution, settings)


def _run(sampler: Sampler, server: MetricsServer) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    sampler.start()
    serving = threading.Thread(target=server.serve_forever, name="server", daemon=True)
    serving.start()
    sys.stdout.write(f"listening on {server.url}\n")
    sys.stdout.flush()
    log.info("gputailor-exporter %s is running", __version__)
    stop.wait()
    log.info("stopping")
    server.shutdown()
    server.server_close()
    sampler.close()
