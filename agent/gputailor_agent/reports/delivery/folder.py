"""A folder that keeps reports: FOLDER/CLUSTER/PERIOD/report.html, .md, .json and .csv.

Teams' parts lie in folders of their own below that (``keeping``).

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
    cluster, period = place_of(content.cluster, content.period)
    above = folder / cluster
    try:
        above.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{period}-", dir=above))
        try:
            for name, text in content.files.items():
                _write(scratch / name, text)
            for one in (scratch, *(path for path in scratch.rglob("*") if path.is_dir())):
                one.chmod(0o755)
                _flush(one)
            _settle(scratch, above / period)
            _flush(above)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise SendError(
            f"{folder} cannot be written to: {error.strerror or error}", everyone=True
        ) from None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _settle(scratch: Path, place: Path) -> None:
    """Rename into place; file by file where there is something already."""
    if not place.exists():
        scratch.rename(place)
        return
    for file in [path for path in scratch.rglob("*") if path.is_file()]:
        target = place / file.relative_to(scratch)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)
        _flush(target.parent)
    _flush(place)


def _flush(folder: Path) -> None:
    """Have the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
