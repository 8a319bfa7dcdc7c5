"""A throw-away PostgreSQL: own folder, own port on loopback, no password, ended with its group."""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from gputailor_agent.store import Store
from tests.processes import Process
from tests.testbed.servers import free_ports

_OWN = itertools.count(1)


def programs() -> Path | None:
    """Folder of ``initdb`` and ``postgres``: on the path, else Debian's newest."""
    found = shutil.which("postgres")
    if found:
        return Path(found).resolve().parent
    there = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4])
    )
    return there[-1].parent if there else None


class Postgres:
    """A running server. It refuses to run as root, so there it runs as somebody without rights."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder = folder
        self._binaries = binaries
        self._user = _unprivileged() if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        self.data = folder / "data"
        self._run(
            "initdb", "-D", self.data, "-U", "test", "-A", "trust", "-N", "--no-locale", "-EUTF8"
        )
        [self.port] = free_ports(1)
        self.start()
        self._template = self._made("template_of_tests")
        Store.open(self._template).close()

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = (
            "fsync=off",
            "full_page_writes=off",
            "shared_buffers=32MB",
            "max_connections=60",
        )
        command = [
            str(self._binaries / "postgres"),
            *("-D", str(self.data), "-k", str(self.folder), "-p", str(self.port)),
            *("-c", "listen_addresses=127.0.0.1"),
            *(part for one in settings for part in ("-c", one)),
        ]
        self.process = Process(self._as_user(command), self.folder / "log", folder=self.folder)
        deadline = time.monotonic() + 30
        ready = [str(self._binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode:
            if time.monotonic() > deadline or self.process.popen.poll() is not None:
                pytest.fail(f"PostgreSQL does not start:\n{self.process.output}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it at once, as a restart of the server does: connections break."""
        self.process.interrupt()

    def end(self) -> None:
        """Leave nothing behind: it ends at once, but gives its shared memory back."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.popen.send_signal(signal.SIGQUIT)
            self.process.popen.wait(10)
        self.process.end()

    def database(self) -> str:
        """URL of a new database with the tables of a new store."""
        return self._made(f"store_{next(_OWN)}", "TEMPLATE template_of_tests")

    def empty(self) -> str:
        """URL of a new database with nothing in it."""
        return self._made(f"empty_{next(_OWN)}")

    def url(self, name: str) -> str:
        """URL of a database."""
        return f"postgresql+psycopg://test@127.0.0.1:{self.port}/{name}"

    def _made(self, name: str, how: str = "") -> str:
        engine = create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name} {how}")
        engine.dispose()
        return self.url(name)

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._binaries / program), *map(str, arguments)]
        subprocess.run(
            self._as_user(command), check=True, cwd=self.folder, stdout=subprocess.DEVNULL
        )

    def _as_user(self, command: list[str]) -> list[str]:
        """Return the command as its user runs it; it ends when the tests are killed."""
        if shutil.which("setpriv") is None:
            return command
        user = self._user
        given = [] if user is None else [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"]
        alone = [] if user is None else ["--clear-groups"]
        return ["setpriv", "--pdeathsig=QUIT", *given, *alone, *command]


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    pytest.skip("PostgreSQL does not run as root, and there is no user nobody")


@contextlib.contextmanager
def running() -> Iterator[Postgres]:
    """A server of one's own, or a skip that names what is missing."""
    binaries = programs()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    with tempfile.TemporaryDirectory(prefix="gputailor-postgres-") as folder:
        server = Postgres(Path(folder), binaries)
        try:
            yield server
        finally:
            server.end()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server that tests share; each asks it for a database of its own."""
    with running() as server:
        yield server
