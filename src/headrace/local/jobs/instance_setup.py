"""Everything that the processes of an attempt need, made before they start: specs, hosts, hostfile, agent, files.

Each of it is written whole, and the same again when a supervisor died meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.api.quantities import size_bytes
from headrace.jobs.environments import role_environment
from headrace.jobs.ranks import Process, hostfile, mpi_environment, process_environment
from headrace.jobs.spec import JobKind, JobSpec, Role, RoleName
from headrace.local.jobs.instance_spec import SPEC_FILE, STATE_FILE, InstanceSpec, read_instance_report
from headrace.local.jobs.job_layout import JobLayout
from headrace.local.jobs.job_records import Instance, JobRecord
from headrace.local.jobs.job_store import content_of
from headrace.local.jobs.job_volumes import Volume
from headrace.local.jobs.resource_limits import limits_of
from headrace.local.jobs.scheduler import needs_mount
from headrace.local.nodes.virtual_nodes import VirtualNode
from headrace.local.operations.runner_spec import BindMount
from headrace.local.processes.cgroups import Limits, why_not
from headrace.local.processes.child_environment import child_environment
from headrace.local.processes.private_files import make_private_folder, write_private
from headrace.settings.environment import ROLE_MARK, Environment, dataset_variable

_HOSTS = Path("/etc/hosts")
_SOURCES = Path(__file__).parents[3]
_AGENT = """#!/bin/sh
# A program's own modules must not take the place of ours.
PYTHONPATH={sources} exec {python} -P -m headrace.local.jobs.rank_launcher {folder} "$@"
"""
# Nodes share the processors of this machine: nothing is bound to a core that another node would take as well, and who
# waits lets others work.
_SHARED_MACHINE = {
    "OMPI_MCA_if_base_do_not_resolve": "1",
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl": "self,vader,tcp",
}


@dataclass(frozen=True, slots=True)
class InstanceSetup:
    """One attempt of a job. `spec` has its secrets; `subnet` is the network of the nodes, empty for none."""

    record: JobRecord
    spec: JobSpec
    layout: JobLayout
    nodes: Mapping[str, VirtualNode]
    volumes: Sequence[Volume]
    subnet: str
    mark: str
    environment: Environment
    is_apart: bool

    def set_up(self, instance: Instance) -> None:
        """Writes the spec of an instance that has not begun in this attempt, and what they name. Blocks."""
        folder = make_private_folder(self.layout.instance(instance.name))
        make_private_folder(self.layout.log(instance.name).parent)
        report = read_instance_report(folder / STATE_FILE)
        if report is not None and report.run != self.record.run:
            (folder / STATE_FILE).unlink(missing_ok=True)
        self._write_shared()
        write_private(folder / SPEC_FILE, self._spec(instance).to_json())

    def _write_shared(self) -> None:
        """What all instances have in common."""
        if self.is_apart:
            write_private(self.layout.hosts, self._hosts().encode())
            self.layout.hosts.chmod(0o644)
            for number, file in enumerate(self.spec.config_files):
                write_private(self.layout.files / str(number), content_of(file.content))
        if self.spec.kind is JobKind.MPI:
            workers = [each.name for each in self.record.instances if each.role is RoleName.WORKER]
            write_private(self.layout.hostfile, hostfile(workers, self.spec.slots_per_worker).encode())
            self._write_agent()

    def _write_agent(self) -> None:
        words = {"python": sys.executable, "folder": str(self.layout.folder), "sources": str(_SOURCES)}
        text = _AGENT.format(**{name: _quoted(word) for name, word in words.items()})
        write_private(self.layout.agent, text.encode())
        self.layout.agent.chmod(0o700)

    def _hosts(self) -> str:
        known = _HOSTS.read_text(encoding="utf-8", errors="replace") if _HOSTS.exists() else ""
        lines = [f"{each.address}\t{each.name}\n" for each in self.record.instances]
        return f"{known.rstrip()}\n# Instances of this job.\n{''.join(lines)}"

    def _spec(self, instance: Instance) -> InstanceSpec:
        serves = self.spec.kind is JobKind.MPI and instance.role is RoleName.WORKER
        limits = self._limits(instance)
        return InstanceSpec(
            run=self.record.run,
            name=instance.name,
            command=() if serves else command_of(self.spec),
            environment=self.variables(instance),
            places=tuple(self._bind_mounts(instance)) if self.is_apart else (),
            folder=self.spec.working_dir,
            log=str(self.layout.log(instance.name)),
            is_apart=self.is_apart,
            shared_memory_bytes=size_bytes(self.spec.shared_memory) if self.is_apart else None,
            memory_bytes=limits.memory_bytes,
            cpus=limits.cpus,
            token=self.layout.token.read_text(encoding="ascii") if serves else "",
        )

    def _limits(self, instance: Instance) -> Limits:
        """What its programs may have, where that can be told to the kernel; else a notice has said that it is not."""
        role = self.spec.role(instance.role)
        limits = limits_of(role.resources) if role is not None else Limits()
        return Limits() if why_not(limits) else limits

    def _bind_mounts(self, instance: Instance) -> list[BindMount]:
        node = self.nodes[instance.node]
        found = [BindMount(source=str(self.layout.hosts), target=str(_HOSTS))] if _HOSTS.exists() else []
        if needs_mount(self.spec, instance.role):
            found += [
                BindMount(
                    source=each.source(self.layout.layout, node),
                    target=each.wish.path,
                    part=each.wish.sub_path,
                    read_only=each.wish.read_only or each.dataset is not None,
                )
                for each in self.volumes
            ]
        found += [BindMount(source=each.host_path, target=each.path) for each in self.spec.host_folders]
        found += [
            BindMount(source=str(self.layout.files / str(number)), target=file.path, read_only=True)
            for number, file in enumerate(self.spec.config_files)
        ]
        return found

    def variables(self, instance: Instance) -> dict[str, str]:
        """The machine's, ours, what the ranks find each other by, and over all what was asked for."""
        role = self.spec.role(instance.role) or Role(name=instance.role, replicas=1)
        own = {
            **child_environment(self.environment),
            **({"PATH": self.record.search_path} if self.record.search_path else {}),
            "HOSTNAME": instance.name,
            "HEADRACE_NODE": instance.node,
            "HEADRACE_NODE_ADDRESS": instance.address,
            **self._dataset_variables(instance),
            **self._rank_variables(instance),
        }
        return {**own, **role_environment(self.spec, role), ROLE_MARK: f"{self.mark}{instance.name}"}

    def _dataset_variables(self, instance: Instance) -> dict[str, str]:
        node = self.nodes[instance.node]
        return {
            dataset_variable(each.dataset[1]): each.wish.path
            if self.is_apart
            else each.source(self.layout.layout, node)
            for each in self.volumes
            if each.dataset is not None
        }

    def _rank_variables(self, instance: Instance) -> dict[str, str]:
        if self.spec.kind is JobKind.MPI:
            networks = [self.subnet] if self.subnet else ["127.0.0.0/8"]
            told = mpi_environment(
                str(self.layout.hostfile),
                slots=self.spec.slots_per_worker,
                agent=str(self.layout.agent),
                interfaces=networks,
            )
            return {**_SHARED_MACHINE, **told, **self._session_variables(instance)}
        processes = [self._process(each) for each in self.record.instances]
        return process_environment(self.spec, processes, self._process(instance))

    def _session_variables(self, instance: Instance) -> dict[str, str]:
        """Where Open MPI's daemon in a worker keeps its session: each by itself.

        Sessions are named after host name and job. Where all workers have the host name of this machine, daemons that
        begin in the same moment would take files from each other, and one of them would wait for ever.
        """
        if self.is_apart or instance.role is not RoleName.WORKER:
            return {}
        return {"OMPI_MCA_orte_tmpdir_base": str(self.layout.instance(instance.name))}

    def _process(self, instance: Instance) -> Process:
        return Process(instance.role, instance.index, instance.address, instance.port)


def command_of(spec: JobSpec) -> tuple[str, ...]:
    """The command to run: one word is a line for the shell, several are a program and its words."""
    return (spec.shell, "-c", spec.command[0]) if len(spec.command) == 1 else spec.command


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
