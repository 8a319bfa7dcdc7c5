"""C libraries of the tests: compiled once into a cache folder, by a hash of all that goes in."""

import hashlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")


def compiled(
    cache: Path,
    name: str,
    sources: Iterable[Path],
    *,
    options: Sequence[str] = (),
    version_script: str = "",
    compiler: str = "gcc",
) -> Path:
    """Library ``name`` of C sources (headers count for the hash); one built before is used again.

    ``options`` come last on the command line. ``version_script``: which symbols it shows, in the
    linker's words; empty shows all. The file appears whole, so that several may build at once.
    Raises ``RuntimeError`` with what the compiler said.
    """
    sources = sorted(sources)
    digest = hashlib.sha256("\0".join((*FLAGS, *options, version_script)).encode())
    for source in sources:
        digest.update(source.read_bytes())
    folder = cache / digest.hexdigest()[:16]
    library = folder / name
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    draft, script = folder / f"{os.getpid()}.so", folder / f"{os.getpid()}.map"
    exports = []
    if version_script:
        script.write_text(version_script, encoding="utf-8")
        exports = [f"-Wl,--version-script,{script}"]
    parts = [str(source) for source in sources if source.suffix == ".c"]
    _run([compiler, *FLAGS, *exports, "-o", str(draft), *parts, *options])
    draft.replace(library)
    script.unlink(missing_ok=True)
    return library


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
