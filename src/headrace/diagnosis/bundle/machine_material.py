"""The helpful material of this machine: what the doctor says, mounts and their logs, the local backend, settings,
versions."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.api.kinds import KINDS
from headrace.diagnosis.bundle.deadlines import within
from headrace.diagnosis.bundle.tails import tail
from headrace.diagnosis.bundle.writing import MOST_FILE_BYTES, Bundle
from headrace.diagnosis.findings import Finding
from headrace.engine.handles import Engine
from headrace.engine.registry import Registry
from headrace.engine.registry_entry import Entry
from headrace.errors import HeadraceError
from headrace.local.layout import BackendLayout
from headrace.local.protocol.client import LocalClient
from headrace.settings.environment import HEADRACE_VARIABLES, Environment

_ANSWER_S = 15.0
_MOST_MOUNTS = 50
_OF_KERNEL = (
    "version",
    "meminfo",
    "filesystems",
    "self/limits",
    "self/cgroup",
    "pressure/io",
    "pressure/memory",
)


def collect(bundle: Bundle, environment: Environment, findings: Iterable[Finding]) -> None:
    """Adds everything; what cannot be had is named in the manifest and keeps nothing else out."""
    bundle.add_value("doctor.json", [each.as_dict() for each in findings], "what `headrace doctor` finds")
    bundle.add_value(
        "environment.json", _variables(environment), "variables that Headrace reads, and proxies"
    )
    _kernel(bundle)
    _configuration(bundle, environment)
    entries = Registry(environment.runtime_directory).entries()
    for number, entry in enumerate(entries[:_MOST_MOUNTS]):
        _mount(bundle, entry, f"mounts/{number}")
    if len(entries) > _MOST_MOUNTS:
        bundle.leave_out("mounts", f"{len(entries) - _MOST_MOUNTS} more mounts")
    _backend(bundle, BackendLayout.of(environment))
    bundle.leave_out("Secrets, secret files, tokens", "credentials are never taken")
    bundle.leave_out("data and lists of files", "they are yours, and large")


def add_file(bundle: Bundle, name: str, path: Path, about: str) -> None:
    """The end of a file, or why not."""
    try:
        bundle.add_text(name, tail(path, MOST_FILE_BYTES), about)
    except (OSError, ValueError) as error:
        bundle.leave_out(name, f"{path}: {getattr(error, 'strerror', None) or error}")


def _variables(environment: Environment) -> dict[str, str]:
    names = {*HEADRACE_VARIABLES, "PATH", "LANG", "AWS_PROFILE", "AWS_REGION", "SSL_CERT_FILE", "KUBECONFIG"}
    return {name: value for name in sorted(names) if (value := environment.get(name))} | environment.proxies


def _kernel(bundle: Bundle) -> None:
    bundle.add_value("machine.json", platform.uname()._asdict(), "the machine")
    for name in _OF_KERNEL:
        add_file(bundle, f"kernel/{name.replace('/', '-')}", Path("/proc") / name, "what the kernel says")
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        bundle.leave_out("kernel/mounts", str(error))
        return
    ours = [line for line in lines if " fuse.headrace " in line]
    bundle.add_text("kernel/mounts", "\n".join(ours), "our mounts, as the kernel knows them")


def _configuration(bundle: Bundle, environment: Environment) -> None:
    for file in environment.config_files:
        if file.exists():
            add_file(bundle, f"configuration/{file.name}", file, f"the configuration {file}")
            return


def _mount(bundle: Bundle, entry: Entry, folder: str) -> None:
    bundle.add_value(f"{folder}/entry.json", entry.as_dict(), f"the mount at {entry.mountpoint}")

    def status() -> Mapping[str, Any]:
        with Engine.attach(Path(entry.state_directory)) as engine:
            return {"status": engine.status().model_dump(mode="json"), "metrics": engine.metrics()}

    told = _asked(bundle, f"{folder}/status.json", status)
    if told is not None:
        bundle.add_value(f"{folder}/status.json", told["status"], "its status")
        bundle.add_text(f"{folder}/metrics.txt", told["metrics"], "its metrics")
    if entry.log_file:
        add_file(bundle, f"{folder}/log.txt", Path(entry.log_file), "the end of its log")


def _backend(bundle: Bundle, layout: BackendLayout) -> None:
    if not layout.database.exists():
        return
    client = LocalClient(layout)
    status = _asked(
        bundle, "local/status.json", lambda: client.status(timeout_s=_ANSWER_S).model_dump(mode="json")
    )
    if status is not None:
        bundle.add_value("local/status.json", status, "the local backend")
        objects = _asked(bundle, "local/objects.json", lambda: client.objects(list(KINDS)).items)
        bundle.add_value(
            "local/objects.json", objects, "what is declared; of Secrets the names of their keys"
        )
    add_file(bundle, "local/supervisor.log", layout.log, "the end of its supervisor's log")
    for log in sorted(layout.nodes.rglob("*.log"))[:_MOST_MOUNTS]:
        add_file(bundle, f"local/nodes/{log.relative_to(layout.nodes)}", log, "the end of a role's log")


def _asked(bundle: Bundle, name: str, ask: Callable[[], Any]) -> Any:
    try:
        return within(_ANSWER_S, ask, name)
    except (HeadraceError, OSError, ValueError) as error:
        bundle.leave_out(name, str(error))
        return None
