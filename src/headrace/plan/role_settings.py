"""The roles of a dataset: the settings of its master, its workers and its mounts, and the version of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from headrace.plan.dataset_tree import Tree
from headrace.plan.declared import Declared
from headrace.plan.node_names import natural_order
from headrace.plan.observed import Observed
from headrace.plan.roles import (
    MASTER_ID,
    CacheFolder,
    PlainOption,
    Role,
    RoleKind,
    SecretKey,
    digest_of,
    mount_id,
    worker_id,
)
from headrace.plan.runtimes import Wanted
from headrace.settings.roles import MasterSettings, MemberSettings, WorkerSettings

_LONGEST_NAME = 63
# About two minutes of pauses: a server of NFS that is started anew lets nobody in for up to 90 seconds, and a program
# that waits is better off than one that is told EIO. Two workers that try one after the other stay below the read
# deadline of mounts (five minutes), so that what is told in the end is the origin's own fault.
_ORIGIN_RETRIES = 54


@dataclasses.dataclass(frozen=True, slots=True)
class Blueprint:
    """All that roles are made from."""

    declared: Declared
    wanted: Wanted
    tree: Tree
    cache: tuple[CacheFolder, ...]
    observed: Observed
    restores: bool = True

    def master(self, node: str | None) -> Role:
        """The master."""
        restore = self.declared.dataset.spec.data_restore_location if self.declared.dataset else None
        settings = MasterSettings(
            cluster=cluster_name(self.declared.key),
            origins=self.tree.origins,
            snapshot_at_start=self.wanted.lists_by_itself,
            replicas=self.wanted.block_replicas,
        )
        role = self._role(MASTER_ID, RoleKind.MASTER, node, settings)
        return dataclasses.replace(role, restore_from=restore.path if restore and self.restores else None)

    def workers(self, nodes: Mapping[int, str]) -> tuple[Role, ...]:
        """A worker for each index that has a node."""
        return tuple(self._worker(index, nodes[index]) for index in sorted(nodes))

    def _worker(self, index: int, node: str) -> Role:
        settings = WorkerSettings(
            id=worker_id(index),
            node=node,
            # What is listed concerns the master alone: a change of it leaves workers as they are.
            origins=tuple(origin.for_reading() for origin in self.tree.origins),
            high=self.cache[0].high,
            low=self.cache[0].low,
            retries=_ORIGIN_RETRIES,
        )
        return self._role(worker_id(index), RoleKind.WORKER, node, settings)

    def _role(
        self, role_id: str, kind: RoleKind, node: str | None, settings: MasterSettings | WorkerSettings
    ) -> Role:
        cache = self.cache if kind is RoleKind.WORKER else ()
        return Role(
            id=role_id,
            kind=kind,
            node=node,
            settings=settings,
            cluster=self.declared.key,
            secrets=self.tree.secrets,
            cache=cache,
            run_as=self.wanted.run_as,
            version=f"{self._tree_version()}.{self._own_version(node, settings, cache)}",
        )

    def _tree_version(self) -> str:
        """Changes with what is read, not with the credentials for it, nor with what of it is listed."""
        told = {"exclude", "exclude_below"}
        read = [origin.for_reading() for origin in self.tree.origins]
        return digest_of([origin.model_dump(mode="json", exclude=told) for origin in read])

    def _listed_version(self) -> list[object]:
        """Changes with what of the origins is listed; empty where that is all."""
        return [
            origin.model_dump(mode="json")
            for origin in self.tree.origins
            if origin.exclude or origin.options != origin.for_reading().options
        ]

    def _own_version(
        self, node: str | None, settings: MasterSettings | WorkerSettings, cache: tuple[CacheFolder, ...]
    ) -> str:
        run_as = self.wanted.run_as.model_dump() if self.wanted.run_as else None
        # Not of its place: a worker that moves is another process anyway, and all workers are made from one template.
        return digest_of(
            [
                node if isinstance(settings, MasterSettings) else None,
                settings.model_dump(mode="json", exclude={"origins", "id", "node"}),
                *(self._listed_version() if isinstance(settings, MasterSettings) else ()),
                [dataclasses.asdict(folder) for folder in cache],
                run_as,
                self._secret_digests(),
                self.tree.generations,
            ]
        )

    def _secret_digests(self) -> list[list[str]]:
        """What tells that a secret that is used is another one. The digests are keyed by the backend, so they tell
        nothing else.
        """
        return [
            [file.origin_path, option, *self._secret_digest(place)]
            for file in self.tree.secrets
            for option, place in file.values.items()
        ]

    def _secret_digest(self, place: SecretKey | PlainOption) -> tuple[str, str]:
        if isinstance(place, PlainOption):
            return place.dataset, ""
        facts = self.observed.secrets.get(place.secret)
        return f"{place.secret}/{place.key}", facts.digests.get(place.key, "") if facts else ""


def mounts_on(nodes: Iterable[str], cluster: str) -> tuple[Role, ...]:
    """A mount for each node, of the cluster of dataset `cluster`."""
    return tuple(_mount(node, cluster) for node in sorted(nodes, key=natural_order))


def _mount(node: str, cluster: str) -> Role:
    # It runs as itself, whoever the other processes run as: who may mount is the kernel's rule.
    settings = MemberSettings(node=node, allow_other=True)
    version = f"-.{digest_of([settings.model_dump(mode='json', exclude={'node'}), cluster])}"
    return Role(mount_id(node), RoleKind.MOUNT, node, settings, cluster, version=version)


def cluster_name(key: str) -> str:
    """The name of a dataset's cluster: `namespace.name`, cut where it is too long, and still its own."""
    name = key.replace("/", ".")
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 13]}-{digest_of(key)}"
