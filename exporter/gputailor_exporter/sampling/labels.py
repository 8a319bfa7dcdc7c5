"""The words the sampler counts its own troubles by."""

from typing import Final

#: Label values of ``exporter_errors_total{reason}`` that are not a device's or a source's own.
THREAD_DIED: Final = "thread_died"
INTERNAL_ERROR: Final = "internal_error"
STALE_DROPPED: Final = "stale_dropped"
STOOD_STILL: Final = "stood_still"
UNMATCHED_DEVICE_ID: Final = "unmatched_device_id"

#: Label values of ``source`` for what is no back end or allocation source.
EVENTS: Final = "events"
ATTRIBUTION: Final = "attribution"
WATCHDOG: Final = "watchdog"
