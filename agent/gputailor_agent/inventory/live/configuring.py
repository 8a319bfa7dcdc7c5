"""How a cluster is reached: kubeconfig (contexts, exec plugins) or the pod's service account.

The ``kubernetes`` client reads both; here its silence is broken. It logs what an exec plugin said
and goes on without credentials, and names neither the file nor the contexts there are, so the
kubeconfig is looked over first and every mistake told with file and remedy.
"""

import importlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gputailor_agent.inventory.live import plugging
from gputailor_agent.inventory.live.errors import AccessError, NoClusterError
from gputailor_agent.model.nearest import did_you_mean

_SERVICE_HOST: Final = "KUBERNETES_SERVICE_HOST"
_UNSUPPORTED: Final = "azure"  # auth-provider that neither kubectl nor the client has any more


@dataclass(frozen=True, slots=True)
class Connection:
    """A way to a cluster. ``load`` makes the client's configuration, again whenever called."""

    where: str  # "context lab of /home/me/.kube/config"
    namespace: str  # of the context or the service account; '' where none is set
    load: Callable[[], Any]


def client_module(name: str) -> Any:
    """A module of the ``kubernetes`` client.

    Imported by name when needed: it costs a second and 40 MB, which commands without a cluster
    must not pay, and it has no types that hold.
    """
    return importlib.import_module(f"kubernetes.{name}")


def find_connection(
    kubeconfig: Path | str | None = None,
    context: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Connection:
    """The cluster to ask: what is named, else KUBECONFIG or ~/.kube/config, else the pod's own.

    This is kubectl's order. Raises ``NoClusterError`` where there is none, ``AccessError`` where
    what there is cannot be used.
    """
    environment = os.environ if environment is None else environment
    paths = _paths(kubeconfig, environment)
    if kubeconfig is not None or context is not None or any(path.exists() for path in paths):
        return _from_kubeconfig(paths, context)
    if environment.get(_SERVICE_HOST):
        return _in_cluster()
    raise NoClusterError(
        f"no cluster to ask: there is no kubeconfig at {_listed(paths)} and this is no pod; "
        "give --kubeconfig PATH or set KUBECONFIG, or work from files: "
        "kubectl get … -o json > cluster.json and --inventory cluster.json"
    )


def _paths(kubeconfig: Path | str | None, environment: Mapping[str, str]) -> list[Path]:
    named = str(kubeconfig) if kubeconfig is not None else environment.get("KUBECONFIG", "")
    parts = [Path(part).expanduser() for part in named.split(os.pathsep) if part]
    return parts or [Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"]


def _listed(items: list[Path]) -> str:
    return ", ".join(str(item) for item in items)


def _in_cluster() -> Connection:
    config = client_module("config")
    incluster = client_module("config.incluster_config")

    def load() -> Any:
        configuration = client_module("client").Configuration()
        try:
            config.load_incluster_config(client_configuration=configuration)
        except (config.ConfigException, OSError) as error:
            raise AccessError(
                f"the pod's service account cannot be used: {error} "
                f"(expected {incluster.SERVICE_TOKEN_FILENAME} and "
                f"{incluster.SERVICE_CERT_FILENAME}); is automountServiceAccountToken off?"
            ) from error
        return configuration

    folder = Path(incluster.SERVICE_TOKEN_FILENAME).parent
    try:
        namespace = (folder / "namespace").read_text("utf-8").strip()
    except OSError:
        namespace = ""
    return Connection(where="the pod's service account", namespace=namespace, load=load)


def _from_kubeconfig(paths: list[Path], context: str | None) -> Connection:
    found = _looked_over(paths, context)
    config = client_module("config")
    plugging.limit(client_module("config.kube_config"), client_module("config.exec_provider"))

    def load() -> Any:
        configuration = client_module("client").Configuration()
        with _overhearing() as said:
            try:
                config.load_kube_config(
                    config_file=os.pathsep.join(str(path) for path in paths),
                    context=found.context,
                    client_configuration=configuration,
                )
            except Exception as error:
                raise AccessError(f"{found.where}: {error}; mend the file") from error
        if said and "exec" in found.user and not _authenticated(configuration):
            raise AccessError(
                f"{found.where}: the exec plugin {_command(found.user)!r} of user "
                f"{found.user_name!r} gave no credentials: {'; '.join(said)}; "
                "run it by hand to see why, or log in again"
            )
        return configuration

    return Connection(where=found.where, namespace=found.namespace, load=load)


def _authenticated(configuration: Any) -> bool:
    return bool(configuration.api_key) or bool(configuration.cert_file)


@contextmanager
def _overhearing() -> Iterator[list[str]]:
    """What the client logs on the root logger while it loads; it is told in our words instead."""
    said: list[str] = []

    def overhear(record: logging.LogRecord) -> bool:
        said.append(record.getMessage())
        return False

    root = logging.getLogger()
    root.addFilter(overhear)
    try:
        yield said
    finally:
        root.removeFilter(overhear)


@dataclass(frozen=True, slots=True)
class _Found:
    where: str
    context: str
    namespace: str
    user_name: str
    user: Mapping[str, Any]


class _Section:
    """One of clusters, contexts, users over all files: the first of a name counts."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[Path, Mapping[str, Any]]] = {}

    def add(self, path: Path, content: Mapping[str, Any], plural: str) -> None:
        singular = plural.removesuffix("s")
        entries = content.get(plural) or []
        if not isinstance(entries, list):
            raise AccessError(f"{path}: {plural}: expected a list; is this a kubeconfig?")
        for number, entry in enumerate(entries, 1):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise AccessError(
                    f"{path}: {plural}: entry {number} has no name; expected "
                    f"{{name: …, {singular}: {{…}}}}"
                )
            body = entry.get(singular)
            self.entries.setdefault(entry["name"], (path, body if isinstance(body, dict) else {}))

    def get(self, name: str, asked_by: str, plural: str) -> tuple[Path, Mapping[str, Any]]:
        if name not in self.entries:
            near = did_you_mean(name, self.entries, sign="")
            hint = f" ({near})" if near else ""
            known = ", ".join(sorted(self.entries)) or "none"
            raise AccessError(f"{asked_by}{name!r}{hint}; {plural} there are: {known}")
        return self.entries[name]


def _looked_over(paths: list[Path], context: str | None) -> _Found:
    sections = {plural: _Section() for plural in ("contexts", "clusters", "users")}
    current = ""
    there = [path for path in paths if path.exists()]
    if not there:
        raise AccessError(
            f"{_listed(paths)}: there is no such kubeconfig; check --kubeconfig or KUBECONFIG"
        )
    for path in there:
        content = _read(path)
        current = current or str(content.get("current-context") or "")
        for plural, section in sections.items():
            section.add(path, content, plural)
    files = _listed(there)
    name = context or current
    if not name:
        known = ", ".join(sorted(sections["contexts"].entries)) or "none"
        raise AccessError(
            f"{files}: no current-context is set; give --context NAME; contexts there are: {known}"
        )
    path, chosen = sections["contexts"].get(name, f"{files}: there is no context ", "contexts")
    where = f"context {name!r} of {path}"
    cluster = str(chosen.get("cluster") or "")
    _check_cluster(
        where,
        cluster,
        *sections["clusters"].get(
            cluster, f"{where} names a cluster that is not there: ", "clusters"
        ),
    )
    user_name = str(chosen.get("user") or "")
    user_path, user = (
        sections["users"].get(user_name, f"{where} names a user that is not there: ", "users")
        if user_name
        else (path, {})
    )
    _check_user(where, user_path, user_name, user)
    namespace = str(chosen.get("namespace") or "")
    return _Found(where, name, namespace, user_name, user)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise AccessError(f"{path}: cannot be read: {error}; check its permissions") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f" (line {mark.line + 1})" if mark is not None else ""
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise AccessError(f"{path}{at}: not YAML: {said}; expected a kubeconfig") from error
    if not isinstance(content, dict):
        raise AccessError(
            f"{path}: is no kubeconfig; expected a mapping with clusters, contexts and users"
        )
    return content


def _command(user: Mapping[str, Any]) -> str:
    plugin = user.get("exec")
    return str(plugin.get("command") or "") if isinstance(plugin, dict) else ""


def _check_cluster(where: str, name: str, path: Path, cluster: Mapping[str, Any]) -> None:
    if not str(cluster.get("server") or "").strip():
        raise AccessError(
            f"{where}: cluster {name!r} has no server address; expected server: https://HOST:PORT "
            f"in {path}"
        )


def _check_user(where: str, path: Path, name: str, user: Mapping[str, Any]) -> None:
    provider = user.get("auth-provider")
    if isinstance(provider, dict) and provider.get("name") == _UNSUPPORTED:
        raise AccessError(
            f"{where}: user {name!r} logs in by auth-provider {_UNSUPPORTED!r}, which Kubernetes "
            "gave up; convert it with: kubelogin convert-kubeconfig"
        )
    if "exec" not in user:
        return
    command = _command(user)
    if not command:
        raise AccessError(f"{where}: user {name!r}: exec has no command; mend {path}")
    local = path.parent / command if os.sep in command else None
    runs = os.access(local, os.X_OK) if local is not None else shutil.which(command) is not None
    if not runs:
        hint = str(user["exec"].get("installHint") or "").strip()
        raise AccessError(
            f"{where}: the exec plugin {command!r} of user {name!r} is not there or cannot be "
            f"run; install it and see that it is in PATH{f'. {hint}' if hint else ''}"
        )
