"""A folder that keeps reports: FOLDER/CLUSTER/PERIOD/report.html, .md, .json and .csv.

A report appears as a whole: its files are written beside its place, flushed to the disk and renamed
into it. Where it stands already (the agent died between the renaming and its note, or the report
was made again) each file takes the place of the former one. Nothing is ever removed.
"""

import os
import shutil
import tempfile
from pathlib import Path

from gputailor_agent.reports.delivery.content import Content
from gputailor_agent.reports.delivery.keeping import place_of
from gputailor_agent.reports.delivery.mail import SendError


def keep(folder: Path, content: Content) -> None:
    """Write the files of a report; raises ``SendError`` naming the folder."""
    cluster, period = place_of(content)
    above = folder / cluster
    try:
        above.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{period}-", dir=above))
        try:
            for name, text in content.files.items():
                _write(scratch / name, text)
            scratch.chmod(0o755)
            _settle(scratch, above / period)
            _flush(above)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise SendError(
            f"{folder} cannot be written to: {error.strerror or error}", everyone=True
        ) from None


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _settle(scratch: Path, place: Path) -> None:
    """Rename into place; file by file where there is something already."""
    if not place.exists():
        scratch.rename(place)
        return
    for file in scratch.iterdir():
        file.replace(place / file.name)
    _flush(place)


def _flush(folder: Path) -> None:
    """Have the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
