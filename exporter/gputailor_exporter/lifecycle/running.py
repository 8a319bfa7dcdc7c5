"""The exporter's process: starts the parts, serves, and stops cleanly on SIGTERM or SIGINT.

It serves from the first moment, also while there is no driver yet; ``--require-devices`` ends it
instead. Where only a new process can read the devices (their driver was replaced under this one,
and the binding cannot unload a library) it puts itself in its own place with the same arguments:
the process id stays, counters begin at zero and ``process_start_time_seconds`` says so.
"""

import logging
import os
import signal
import sys
import time
from typing import Final, TextIO

from gputailor_exporter import __version__
from gputailor_exporter.accounting import AccountingSettings
from gputailor_exporter.devices.base import DeviceError
from gputailor_exporter.lifecycle.assembly import Parts, StartError, assemble
from gputailor_exporter.lifecycle.ending import RENEW, Ending
from gputailor_exporter.lifecycle.heap import use_one_arena
from gputailor_exporter.lifecycle.logs import QueuedLog
from gputailor_exporter.options import Options
from gputailor_exporter.sampler import Sampler
from gputailor_exporter.sampling.discovery import DiscoverySettings
from gputailor_exporter.sampling.settings import SamplerSettings
from gputailor_exporter.server import MetricsServer
from gputailor_exporter.serving.listening import ListenError
from gputailor_exporter.serving.webconfig import WebConfig, WebConfigError, load_web_config

log = logging.getLogger(__name__)

#: A driver that has not started within this time hangs; on large nodes it takes some seconds.
OPEN_SECONDS: Final = 60.0
#: How often the start looks whether the required devices are here.
LOOK_SECONDS: Final = 0.02
#: How long the last lines of the log may take.
LOG_SECONDS: Final = 1.0

NO_GPU: Final = "Without a GPU: --backend simulated --scenario demo --node a100-0"

__all__ = ["StartError", "serve"]


def serve(options: Options) -> int:
    """Run until a signal asks to stop; returns 0. Raises ``StartError`` when it cannot start."""
    started = time.time()
    use_one_arena()
    logs = QueuedLog()
    logging.basicConfig(level=options.log_level.upper(), handlers=[logs])
    try:
        return _serve(options, started, logs)
    finally:
        logs.settle(LOG_SECONDS)
        logging.getLogger().removeHandler(logs)
        for stream in (sys.stdout, sys.stderr):
            _say(stream, "")


def _serve(options: Options, started: float, logs: QueuedLog) -> int:
    web = _web_config(options)
    parts = _assemble(options)
    with Ending() as ending:
        sampler = Sampler(
            parts.backend,
            parts.allocations,
            parts.attribution,
            _settings(options, started),
            renew=ending.renew,
            counters=lambda: {("log", "dropped"): logs.dropped},
        )
        try:
            server = MetricsServer(options.listen, sampler, web, sampler.count_error)
        except ListenError as error:
            raise StartError(str(error)) from error
        got = _run(options, sampler, server, ending)
    if got == RENEW:
        logs.settle(LOG_SECONDS)
        _renew()
    return 0


def _web_config(options: Options) -> WebConfig:
    if options.web_config is None:
        return WebConfig()
    try:
        return load_web_config(options.web_config)
    except WebConfigError as error:
        raise StartError(str(error)) from error


def _assemble(options: Options) -> Parts:
    try:
        return assemble(options)
    except DeviceError as error:
        raise StartError(f"cannot read devices: {error}") from error


def _settings(options: Options, started: float) -> SamplerSettings:
    accounting = AccountingSettings(
        interval_seconds=options.interval,
        linger_seconds=options.linger,
        histogram=options.histogram,
    )
    return SamplerSettings(
        options.node,
        accounting,
        started_wall=started,
        discovery=DiscoverySettings(interval=min(10.0, 10 * options.interval)),
        hang_seconds=options.hang_after,
        keep_allocations_seconds=options.keep_allocations,
    )


def _run(options: Options, sampler: Sampler, server: MetricsServer, ending: Ending) -> int:
    """Serve until something ends it: the number of a signal, or ``RENEW``."""
    sampler.start()
    try:
        if options.require_devices:
            _require_devices(options, sampler, ending)
        server.start()
        for url in server.urls:
            _say(sys.stdout, f"listening on {url}\n")
        log.info("gputailor-exporter %s is running", __version__)
        got = ending.wait()
        reason = "it needs a new process" if got == RENEW else signal.Signals(got).name
        log.info("stopping: %s", reason)
    finally:
        server.stop()
        sampler.close()
    return got


def _require_devices(options: Options, sampler: Sampler, ending: Ending) -> None:
    """Wait until a device is listed; raises ``StartError`` where none can be."""
    until = time.monotonic() + OPEN_SECONDS
    hint = f"\n{NO_GPU}" if options.backend == "nvml" else ""
    while sampler.devices_listed is None and not ending.due(LOOK_SECONDS):
        if sampler.discovery.trouble:
            raise StartError(f"{sampler.discovery.trouble}{hint}")
        if time.monotonic() >= until:
            from gputailor_exporter.checking.remedies import (  # noqa: PLC0415 - seldom needed
                backend_advice,
            )

            raise StartError(
                f"the driver has not answered for {OPEN_SECONDS:g} s. "
                f"What to do: {backend_advice(options.backend).faulty}"
            )
    if sampler.devices_listed == 0:
        raise StartError(f"no device is on this node, and --require-devices asks for one{hint}")


def _renew() -> None:
    """Put a new process of the same arguments in this one's place; does not return."""
    arguments = [sys.executable, *sys.orig_argv[1:]]
    try:
        os.execv(sys.executable, arguments)  # noqa: S606 - our own command line, once more
    except OSError as error:
        raise StartError(f"cannot start anew: {' '.join(arguments)}: {error}") from error


def _say(stream: TextIO, text: str) -> None:
    """Write to a stream that may be full or closed: what cannot be said is left out."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # else the exit fails for what is still in the buffer
        os.close(nowhere)
