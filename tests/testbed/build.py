"""``python -m tests.testbed.build [NAME…]``: builds the real servers that the system tests drive.

Nothing is prebuilt: each folder here with a ``go.mod`` pins a set of programs as Go tools, and they
are built one after another from the module proxy into a cache folder. The cache folder's name is a
hash of all that decides the outcome (go.mod, go.sum, flags, packages). A set is built in a folder
beside it and renamed into place when all of it is there, so a build that was killed is never taken
for a finished one.

``KUBEBUILDER_ASSETS``, a folder of binaries by the convention of controller tests, is searched
first.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
KUBERNETES = "v1.37.2"
HELM = "v4.3.1"
HELM_3 = "v3.22.0"
ACTIONLINT = "v1.7.12"
PROMETHEUS = "v0.316.0"
KWOK = "v0.7.0"
KUBE_STATE_METRICS = "v2.18.0"
VERSITYGW = "v1.8.0"


class BuildError(Exception):
    """A program cannot be had; says which and what to do."""


@dataclass(frozen=True)
class Module:
    """One go.mod of ours: its programs, by the name of the binary, and how they are built."""

    name: str
    programs: Mapping[str, str]
    #: Variables set at link time: without them clients cannot parse what a server says it is.
    variables: Mapping[str, str] = field(default_factory=dict)
    tags: Sequence[str] = ()

    @property
    def folder(self) -> Path:
        """Where its go.mod and go.sum lie."""
        return HERE / self.name

    @property
    def flags(self) -> list[str]:
        """Arguments of ``go build`` that decide what comes out."""
        stamped = [f"-X {name}={value}" for name, value in self.variables.items()]
        tags = ["-tags", ",".join(self.tags)] if self.tags else []
        return [
            "-mod=readonly",
            "-buildvcs=false",
            *tags,
            "-ldflags",
            " ".join(["-s", "-w", *stamped]),
        ]

    @property
    def digest(self) -> str:
        """Hash of everything that decides the outcome."""
        parts = [(self.folder / name).read_bytes() for name in ("go.mod", "go.sum")]
        parts += [" ".join(self.flags).encode(), repr(sorted(self.programs.items())).encode()]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


#: Small ones first: what is wrong with a machine shows within a minute.
MODULES = (
    Module(
        "actionlint",
        {"actionlint": "github.com/rhysd/actionlint/cmd/actionlint"},
        {"github.com/rhysd/actionlint.version": ACTIONLINT},
    ),
    Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    # A server of objects (S3) over a folder: checks signatures, as Amazon's does.
    Module(
        "versitygw",
        {"versitygw": "github.com/versity/versitygw/cmd/versitygw"},
        {"main.Version": VERSITYGW},
    ),
    Module(
        "kube-state-metrics",
        {"kube-state-metrics": "k8s.io/kube-state-metrics/v2"},
        {"github.com/prometheus/common/version.Version": KUBE_STATE_METRICS},
    ),
    Module(
        "kwok",
        {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        {"sigs.k8s.io/kwok/pkg/consts.Version": KWOK},
    ),
    Module(
        "prometheus",
        {
            "prometheus": "github.com/prometheus/prometheus/cmd/prometheus",
            "promtool": "github.com/prometheus/prometheus/cmd/promtool",
        },
        # The library's 0.316 is the server's 3.16.
        {"github.com/prometheus/common/version.Version": "3." + PROMETHEUS.split(".", 1)[1][1:]},
        tags=("remove_all_sd", "enable_kubernetes_sd", "netgo"),
    ),
    Module(
        "kubernetes",
        {
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
            "kubectl": "k8s.io/kubernetes/cmd/kubectl",
            # Stands here because it shares nearly all its libraries with Kubernetes.
            "helm": "helm.sh/helm/v4/cmd/helm",
        },
        {
            "k8s.io/component-base/version.gitVersion": KUBERNETES,
            "k8s.io/component-base/version.gitMajor": KUBERNETES[1:].split(".", 1)[0],
            "k8s.io/component-base/version.gitMinor": KUBERNETES[1:].split(".")[1],
            "k8s.io/client-go/pkg/version.gitVersion": KUBERNETES,
            "helm.sh/helm/v4/internal/version.version": HELM,
        },
    ),
    # Its go.mod names the versions of libraries that the one of Kubernetes has: what was compiled
    # there is not compiled again.
    Module(
        "helm3",
        {"helm3": "helm.sh/helm/v3/cmd/helm"},
        {
            "helm.sh/helm/v3/internal/version.version": HELM_3,
            # Which Kubernetes it takes a cluster for that it does not see.
            **{
                f"helm.sh/helm/v3/pkg/{package}.k8sVersion{part}": number
                for package in ("chartutil", "lint/rules")
                for part, number in zip(
                    ("Major", "Minor"), KUBERNETES[1:].split(".")[:2], strict=True
                )
            },
        },
    ),
)
#: What each binary prints its version with.
VERSION_ARGUMENTS = {
    "kwok": ("--version",),
    "kubectl": ("version", "--client"),
    "helm": ("version", "--short"),
    "helm3": ("version", "--short"),
    "kube-state-metrics": ("version",),
}


def cache_folder() -> Path:
    """Where built programs are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else Path.home() / ".cache"
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        folder = Path(tempfile.gettempdir())
    return folder / "gputailor" / "testbed"


def built_folder(module: Module) -> Path:
    """Where a set's binaries lie once it is built."""
    return cache_folder() / f"{module.name}-{module.digest}"


def find(program: str) -> Path | None:
    """The binary of a program: from ``KUBEBUILDER_ASSETS`` if it is there, else as built."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folders = [Path(assets)] if assets else []
    folders += [built_folder(module) for module in MODULES if program in module.programs]
    for folder in folders:
        if os.access(folder / program, os.X_OK) and (folder / program).is_file():
            return folder / program
    return None


def module_of(program_or_module: str) -> Module:
    """The set that a program belongs to; a BuildError names what there is."""
    for module in MODULES:
        if program_or_module == module.name or program_or_module in module.programs:
            return module
    known = ", ".join(name for module in MODULES for name in (module.name, *module.programs))
    raise BuildError(f"unknown program {program_or_module!r}: expected one of {known}")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One builder at a time; a second one waits and then finds the work done."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "go is not on PATH: the servers of the system tests are built from source. "
            "Install Go 1.26 or newer, or set KUBEBUILDER_ASSETS to a folder that holds "
            + ", ".join(program for module in MODULES for program in module.programs)
        )
    return go


def build(module: Module) -> Path:
    """Build a set unless it is there; its folder.

    A BuildError says that Go is missing, or carries the last lines of what the compiler said.
    """
    target = built_folder(module)
    with _alone(cache_folder()):
        if target.is_dir():
            return target
        go = _go()
        for leftover in cache_folder().glob(f".{module.name}-*"):  # of builds that were killed
            shutil.rmtree(leftover)
        scratch = Path(tempfile.mkdtemp(prefix=f".{module.name}-", dir=cache_folder()))
        try:
            for program, package in module.programs.items():
                _compile(go, module, package, scratch / program)
            scratch.chmod(0o755)
            scratch.rename(target)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
    return target


def _compile(go: str, module: Module, package: str, output: Path) -> None:
    finished = subprocess.run(
        [go, "build", *module.flags, "-o", str(output), package],
        cwd=module.folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if finished.returncode:
        said = "\n".join(finished.stdout.splitlines()[-15:])
        raise BuildError(f"{package} cannot be built ({module.folder / 'go.mod'}):\n{said}")


def version(program: str, binary: Path) -> str:
    """The first line of what a binary says it is."""
    arguments = VERSION_ARGUMENTS.get(program, ("--version",))
    finished = subprocess.run(
        [binary, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    lines = (finished.stdout or finished.stderr).strip().splitlines()
    return lines[0] if lines else f"no version (exit {finished.returncode})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is named (all by default) and print version, time and place of each program."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.build", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="program or folder; default: all")
    names = parser.parse_args(arguments).names
    try:
        chosen = [module_of(name) for name in names] or list(MODULES)
        for module in dict.fromkeys(module.name for module in chosen):
            _report(module_of(module))
    except BuildError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _report(module: Module) -> None:
    missing = any(find(program) is None for program in module.programs)
    begun = time.monotonic()
    if missing:
        _go()  # before anything is announced
        sys.stdout.write(f"{module.name}: building (once; minutes) …\n")
        sys.stdout.flush()
        build(module)
    took = f"built in {time.monotonic() - begun:.0f} s" if missing else "was there"
    for program in module.programs:
        binary = find(program)
        assert binary is not None
        size = binary.stat().st_size / 2**20
        sys.stdout.write(f"{version(program, binary)} ({took}, {size:.0f} MiB): {binary}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
