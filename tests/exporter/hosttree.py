"""A made-up /proc, /var/log/pods and /var/log/containers, and a clock that a test moves."""

from dataclasses import dataclass
from pathlib import Path

from gputailor_exporter.attribution import tracking
from gputailor_exporter.attribution.hosts import HostAttribution, UserNames
from gputailor_exporter.processes import CgroupAttribution


@dataclass
class Ticking:
    """A clock."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


class Host:
    """The files of one machine."""

    def __init__(self, root: Path) -> None:
        self.clock = Ticking()
        self.proc, self.pods, self.links = root / "proc", root / "pods", root / "containers"
        for folder in (self.proc, self.pods, self.links):
            folder.mkdir()

    def process(self, pid, cgroup, started=100, name="python (3.11) x", uid=1000):
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        fields = ["S", *["0"] * 18, str(started), "0"]
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
        (folder / "cgroup").write_text(cgroup)
        (folder / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\t0\t0\t0\nGid:\t5\t5\t5\t5\n")

    def alike(self, pid, pids):
        """Processes that say of themselves what ``pid`` says."""
        for other in pids:
            (self.proc / str(other)).symlink_to(self.proc / str(pid))

    def end(self, pid):
        folder = self.proc / str(pid)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()

    def pod(self, namespace, name, uid, *containers):
        folder = self.pods / f"{namespace}_{name}_{uid}"
        for container in containers:
            (folder / container).mkdir(parents=True)
        return folder

    def link(self, namespace, pod, container, identity):
        (self.links / f"{pod}_{namespace}_{container}-{identity}.log").symlink_to("/nowhere")

    def attribution(self, **more):
        return CgroupAttribution(self.proc, self.pods, clock=self.clock, **more)

    def users(self, **names):
        """Attribution by users, whose numbers are those given and whose names are known at once."""
        known = {number: name for name, number in names.items()}
        users = UserNames(self.clock)
        users._names.update(known)
        return HostAttribution(self.proc, users, self.clock)

    def later(self, seconds=tracking.RETRY_SECONDS + 1.0):
        self.clock.now += seconds
