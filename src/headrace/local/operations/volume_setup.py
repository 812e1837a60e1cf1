"""The volumes of a DataProcess on its node, made: script, volumes, values of Secrets; and the runner spec from all
that."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError, MissingFileError, UnsupportedError
from headrace.local.datasets.claim_facts import claim_facts
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.operations.containers import Container, Mounted, Pod, Variable
from headrace.local.operations.job_driver import Task
from headrace.local.operations.runner_spec import BindMount, ProgramRun, RunnerSpec
from headrace.local.processes.child_environment import child_environment
from headrace.local.processes.private_files import make_private_folder, write_private
from headrace.local.store.secret_values import values_of
from headrace.plan.job_specs import ProcessJob
from headrace.settings.environment import Environment

_LOCAL = "local:///"
_REFERENCE = re.compile(r"\$(\$|\(([A-Za-z_.][-A-Za-z0-9_.]*)\))")


@dataclass(frozen=True, slots=True)
class VolumeSetup:
    """One run of a DataProcess on a node."""

    task: Task
    job: ProcessJob
    pod: Pod
    node: VirtualNode
    mountpoint: Path
    folder: Path
    environment: Environment

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders at which volumes appear. Raises `ConfigError` for one within the dataset."""
        found = {mount.path for each in (*self.pod.before, *self.pod.containers) for mount in each.mounts}
        for path in found:
            if Path(path).is_relative_to(self.job.mount_path):
                raise ConfigError.of(f"{path} is within the dataset at {self.job.mount_path}")
        return tuple(sorted(found))

    def runner_spec(self) -> RunnerSpec:
        """Makes it all. Blocks. Raises what a person has to put right; no error has a value of a Secret."""
        sources = {name: self._source(name, volume) for name, volume in self.pod.volumes.items()}
        before = tuple((self._run(each, sources),) for each in self.pod.before)
        return RunnerSpec(
            run=self.task.run,
            stages=(*before, tuple(self._run(each, sources) for each in self.pod.containers)),
        )

    def _run(self, container: Container, sources: Mapping[str, Path]) -> ProgramRun:
        plain, secret = self._variables(container)
        command = tuple(_expanded(word, plain, secret) for word in container.command)
        if container.script is not None:
            command = (*command, self._script(container.script))
        return ProgramRun(
            name=container.name,
            command=command,
            environment={**child_environment(self.environment), **plain, **secret},
            places=(
                BindMount(
                    source=str(self.mountpoint),
                    target=self.job.mount_path,
                    part=self.job.sub_path,
                    read_only=True,
                ),
                *(self._place(mount, sources) for mount in container.mounts),
            ),
            folder=container.folder,
            user=container.user,
            group=container.group,
            restarts=self.pod.restarts,
        )

    def _place(self, mount: Mounted, sources: Mapping[str, Path]) -> BindMount:
        is_claim = "persistentVolumeClaim" in self.pod.volumes[mount.volume]
        asked = (self.pod.volumes[mount.volume].get("persistentVolumeClaim") or {}) if is_claim else {}
        return BindMount(
            source=str(sources[mount.volume]),
            target=mount.path,
            part=mount.part,
            read_only=mount.read_only or bool(asked.get("readOnly")),
        )

    def _script(self, source: str) -> str:
        """The file of the script, which runs whether its command takes a file or a command."""
        path = self.folder / "script"
        write_private(path, source.encode())
        path.chmod(0o700)
        return str(path)

    def _variables(self, container: Container) -> tuple[dict[str, str], dict[str, str]]:
        """Those that anybody may see, and those from Secrets."""
        plain: dict[str, str] = {}
        secret: dict[str, str] = {}
        for each in container.variables:
            for of_others in (plain, secret):
                of_others.pop(each.name, None)
            if each.secret:
                secret |= self._secret(each)
            else:
                value = self._fact(each.fact) if each.fact else each.value
                made_of_secrets = any(found[2] in secret for found in _REFERENCE.finditer(value))
                (secret if made_of_secrets else plain)[each.name] = _expanded(value, {**plain, **secret}, {})
        return plain, secret

    def _secret(self, variable: Variable) -> dict[str, str]:
        record = self.task.desired.find("Secret", variable.secret, self.task.record.reference.namespace)
        held = values_of(record) if record else {}
        if not variable.name:
            if record is None and not variable.optional:
                raise MissingFileError.of(f"there is no Secret {variable.secret}")
            return {f"{variable.value}{key}": _text(variable.secret, key, held[key]) for key in held}
        if variable.key in held:
            return {variable.name: _text(variable.secret, variable.key, held[variable.key])}
        if variable.optional:
            return {}
        raise MissingFileError.of(f"Secret {variable.secret} has no key {variable.key}")

    def _fact(self, path: str) -> str:
        reference = self.task.record.reference
        return {
            "metadata.name": reference.name,
            "metadata.namespace": reference.namespace,
            "spec.nodeName": self.node.name,
        }.get(path, self.node.address)

    def _source(self, name: str, volume: Mapping[str, Any]) -> Path:
        if "emptyDir" in volume:
            folder = self.folder / "volumes" / name
            make_private_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)
            return folder
        if "secret" in volume:
            return self._secret_files(name, volume["secret"])
        if "hostPath" in volume:
            return _host_folder(name, volume["hostPath"])
        return self._claim(str(volume["persistentVolumeClaim"].get("claimName")))

    def _secret_files(self, name: str, asked: Mapping[str, Any]) -> Path:
        record = self.task.desired.find(
            "Secret", str(asked.get("secretName")), self.task.record.reference.namespace
        )
        if record is None and not asked.get("optional"):
            raise MissingFileError.of(f"there is no Secret {asked.get('secretName')}")
        held = values_of(record) if record else {}
        wanted = {str(item["key"]): str(item["path"]) for item in asked.get("items") or ()}
        folder = make_private_folder(self.folder / "volumes" / name)
        for key, path in (wanted or {key: key for key in held}).items():
            if key not in held:
                raise MissingFileError.of(f"Secret {asked.get('secretName')} has no key {key}")
            if path.startswith("/") or ".." in path.split("/"):
                raise ConfigError.of(f"'{path}' is no path for a key of a Secret")
            write_private(folder / path, held[key])
        owner = next((each.user for each in self.pod.containers if each.user is not None), None)
        for each in (folder, *folder.rglob("*")) if owner is not None else ():
            os.chown(each, owner or 0, -1)
        return folder

    def _claim(self, name: str) -> Path:
        if (self.task.record.reference.namespace, name) == tuple(self.job.cluster.split("/")):
            return self.mountpoint
        claim = claim_facts(self.task.desired).get(name)
        if claim is None or not claim.address:
            raise MissingFileError.of(f"claim {name} has no volume that this machine knows")
        if not claim.address.startswith(_LOCAL):
            raise UnsupportedError.of(
                f"claim {name} is of {claim.address}, which is no folder of this machine"
            )
        return Path("/", claim.address.removeprefix(_LOCAL))


def _host_folder(name: str, asked: Mapping[str, Any]) -> Path:
    path = Path(str(asked.get("path") or ""))
    if not path.is_absolute() or ".." in path.parts:
        raise ConfigError.of(f"volume {name} names no absolute path")
    if asked.get("type") == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        raise MissingFileError.of(f"volume {name}: {path} is not there")
    return path


def _expanded(text: str, plain: Mapping[str, str], secret: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes has it. Raises `UnsupportedError` for a secret, which every user would see."""

    def value(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        if found[2] in secret:
            raise UnsupportedError.of(
                f"$({found[2]}) would show a value of a Secret in the command line",
                hint="have a shell read it from its environment",
            )
        return plain.get(found[2], found[0])

    return _REFERENCE.sub(value, text)


def _text(secret: str, key: str, value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ConfigError.of(f"key {key} of Secret {secret} cannot be in a variable: it is not text")
    return text
