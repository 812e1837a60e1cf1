"""The tree of a dataset: its mounts as origins of the engine, claims and references followed to what they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.api.dataset import Dataset
from headrace.api.ignored import IgnoredField
from headrace.api.mounts import Mount, scheme_of
from headrace.plan import mount_addresses
from headrace.plan.declared import Declared
from headrace.plan.mount_options import (
    OriginOptions,
    options_of,
    patterns_of_references,
    shown_mount,
    unknown_options,
)
from headrace.plan.observed import ClaimFacts, ClaimState, Observed
from headrace.plan.reasons import Reason, Wait, wait
from headrace.plan.roles import SecretFile, SecretKey
from headrace.plan.runtimes import Wanted
from headrace.plan.selectors import fits_selector
from headrace.settings.roles import OriginSettings

_LONGEST_CHAIN = 1


class _Blocked(Exception):  # noqa: N818 - no error: it carries a wait to `tree_of`
    def __init__(self, waiting: Wait) -> None:
        super().__init__(waiting.message)
        self.waiting = waiting


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree that master and workers read. `nodes` are those that have the volumes of claims; `None` for all.

    `generations` are those of Datasets that hold secrets in clear: nobody looks at the values, so any change counts.
    """

    origins: tuple[OriginSettings, ...]
    secrets: tuple[SecretFile, ...]
    mounted: tuple[Mount, ...]
    ignored: tuple[IgnoredField, ...] = ()
    nodes: frozenset[str] | None = None
    generations: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Branch:
    """One mount on its way to an origin: of which dataset, where in the tree, and which folder of it."""

    dataset: Dataset
    key: str
    number: int
    path: str
    folder: str = ""
    depth: int = 0

    @property
    def mount(self) -> Mount:
        return (self.dataset.spec.mounts or ())[self.number]

    @property
    def title(self) -> str:
        return f"mount {self.mount.name or self.mount.tree_path} of dataset {self.key}"


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One origin."""

    branch: _Branch
    kind: str
    address: str
    options: OriginOptions
    nodes: tuple[str, ...]

    @property
    def below(self) -> str | None:
        """Where the address lies below the mount whose patterns say what is left out, where that matters."""
        says = self.branch.mount.exclude or self.options.has("exclude")
        return self.branch.folder or None if says else None


def tree_of(declared: Declared, wanted: Wanted | None, observed: Observed) -> Tree | Wait:
    """The tree, or the first thing that is lacking."""
    dataset = declared.dataset
    if dataset is None or not dataset.spec.mounts:
        return wait(Reason.MOUNTS_MISSING, f"dataset {declared.key} has no mounts")
    try:
        leaves = list(_leaves(declared, wanted, observed))
        return _tree(dataset, leaves)
    except _Blocked as blocked:
        return blocked.waiting


def _leaves(declared: Declared, wanted: Wanted | None, observed: Observed) -> Iterator[_Leaf]:
    secret = wanted.secret if wanted else None
    for branch in _branches(declared.dataset, declared.key):
        for end in _followed(branch, declared, observed):
            leaf = _leaf(end, secret, observed)
            _check_secrets(leaf, secret, observed)
            yield leaf


def _branches(dataset: Dataset | None, key: str) -> Iterator[_Branch]:
    for number, mount in enumerate((dataset.spec.mounts if dataset else None) or ()):
        yield _Branch(dataset=dataset, key=key, number=number, path=mount.tree_path)  # type: ignore[arg-type]


def _followed(branch: _Branch, declared: Declared, observed: Observed) -> Iterator[_Branch]:
    """The branch itself, or those of the dataset that it refers to."""
    if scheme_of(branch.mount.mount_point) != mount_addresses.DATASET:
        yield branch
        return
    key, folder = mount_addresses.dataset_of(branch.mount.mount_point)
    if key.partition("/")[0] != declared.namespace or branch.depth >= _LONGEST_CHAIN:
        # Before it is looked for: whether it exists is not for other namespaces to learn.
        raise _blocked(
            Reason.DATASET_REFERENCE_REFUSED,
            f"{branch.title} refers to dataset {key}, which is in another namespace or refers to others itself",
        )
    other = declared.references.get(key)
    if other is None:
        raise _blocked(
            Reason.DATASET_REFERENCE_MISSING, f"{branch.title} refers to dataset {key}, which does not exist"
        )
    inner = [_moved(each, branch, folder) for each in _branches(other, key)]
    for each in filter(None, inner):
        yield from _followed(each, declared, observed)


def _moved(inner: _Branch, outer: _Branch, folder: str) -> _Branch | None:
    """A mount of another dataset as it appears below `folder` of that one; `None` when it is elsewhere."""
    top, own = f"/{folder}".rstrip("/"), inner.path.rstrip("/")
    place = outer.path.rstrip("/")
    if (own + "/").startswith(top + "/"):
        path = place + own.removeprefix(top)
        return replace(inner, path=path or "/", depth=outer.depth + 1)
    if (top + "/").startswith(own + "/"):
        below = top.removeprefix(own).strip("/")
        return replace(inner, path=place or "/", folder=below, depth=outer.depth + 1)
    return None


def _leaf(branch: _Branch, secret: str | None, observed: Observed) -> _Leaf:
    written = branch.mount.mount_point
    nodes: tuple[str, ...] = ()
    if scheme_of(written) == mount_addresses.CLAIM:
        name, folder = mount_addresses.claim_of(written)
        claim = _claim(name, branch, observed)
        written, nodes = mount_addresses.below(claim.address, folder), claim.nodes
    elif folder := mount_addresses.folder_of(mount_addresses.below(written, branch.folder)):
        nodes = _nodes_of_folder(folder, branch, observed)
    kind = mount_addresses.KIND_OF_SCHEME.get(scheme_of(written))
    if kind is None:
        raise _blocked(Reason.SCHEME_NOT_SUPPORTED, f"{branch.title} has the scheme {scheme_of(written)}://")
    if mount_addresses.carries_credentials(written):
        raise _blocked(Reason.ADDRESS_REFUSED, f"the address of {branch.title} carries credentials")
    facts = observed.secrets.get(secret) if secret else None
    options = options_of(
        kind, branch.dataset, branch.key, branch.number, (secret, facts.keys) if secret and facts else None
    )
    lacking = options.lacking(endpoint_given=mount_addresses.names_endpoint(written))
    if lacking:
        raise _blocked(Reason.OPTION_MISSING, f"{branch.title} lacks the option {lacking}")
    return _Leaf(branch, kind, mount_addresses.below(written, branch.folder), options, nodes)


def _nodes_of_folder(folder: str, branch: _Branch, observed: Observed) -> tuple[str, ...]:
    """The nodes whose folder it is, where nodes are machines that a dataset's author has no rights on: all that may
    hold the dataset's data, master and workers alike.
    """
    if observed.open_folders is None:
        return ()
    if mount_addresses.opened(folder, observed.open_folders) is None:
        what = f"{branch.title} is folder {folder} of the nodes, which is not opened to datasets"
        raise _blocked(Reason.FOLDER_NOT_OPEN, what)
    affinity = branch.dataset.spec.node_affinity
    if affinity is None or affinity.required is None:
        return ()
    return tuple(node.name for node in observed.nodes if fits_selector(node, affinity.required))


def _claim(name: str, branch: _Branch, observed: Observed) -> ClaimFacts:
    claim = observed.claims.get(name)
    if claim is None or claim.state is ClaimState.MISSING:
        raise _blocked(Reason.CLAIM_MISSING, f"{branch.title} names claim {name}, which does not exist")
    if claim.state is ClaimState.PENDING or not claim.address:
        why = f" ({claim.message})" if claim.message else ""
        raise _blocked(Reason.CLAIM_PENDING, f"{branch.title} names claim {name}, which has no volume{why}")
    return claim


def _check_secrets(leaf: _Leaf, runtime_secret: str | None, observed: Observed) -> None:
    wanted = [place for place in leaf.options.secret.values() if isinstance(place, SecretKey)]
    for name in dict.fromkeys(
        [place.secret for place in wanted] + ([runtime_secret] if runtime_secret else [])
    ):
        if observed.secrets.get(name) is None:
            raise _blocked(
                Reason.SECRET_MISSING, f"{leaf.branch.title} needs Secret {name}, which does not exist"
            )
    for place in wanted:
        facts = observed.secrets[place.secret]
        if facts is not None and place.key not in facts.keys:
            what = f"{leaf.branch.title} needs key {place.key} of Secret {place.secret}, which lacks it"
            raise _blocked(Reason.SECRET_KEY_MISSING, what)


def _tree(dataset: Dataset, leaves: list[_Leaf]) -> Tree:
    paths = [_path(leaf) for leaf in leaves]
    if not leaves:
        raise _blocked(
            Reason.DATASET_REFERENCE_MISSING, "the datasets that are referred to have nothing at that place"
        )
    if len(leaves) > 1 and ("" in paths or len(set(paths)) < len(paths)):
        raise _blocked(Reason.MOUNTS_OVERLAP, "one mount is where another is, or at the top beside others")
    origins = [
        OriginSettings(
            path=path,
            origin=leaf.address,
            options=dict(sorted(leaf.options.plain.items())),
            exclude=leaf.branch.mount.exclude or None,
            exclude_below=leaf.below,
        )
        for path, leaf in zip(paths, leaves, strict=True)
    ]
    secrets = [
        SecretFile(path, dict(sorted(leaf.options.secret.items())))
        for path, leaf in zip(paths, leaves, strict=True)
        if leaf.options.secret
    ]
    kinds = {leaf.branch.number: leaf.kind for leaf in leaves if leaf.branch.depth == 0}
    return Tree(
        origins=tuple(origins),
        secrets=tuple(secrets),
        mounted=mounted_of(dataset),
        ignored=(*unknown_options(dataset, kinds), *patterns_of_references(dataset)),
        nodes=_common_nodes(leaves),
        generations=_generations(leaves),
    )


def mounted_of(dataset: Dataset) -> tuple[Mount, ...]:
    """The mounts of a dataset as its status shows them."""
    mounts = dataset.spec.mounts or ()
    return tuple(
        shown_mount(mount, mount_addresses.without_credentials(mount.mount_point)) for mount in mounts
    )


def _path(leaf: _Leaf) -> str:
    return leaf.branch.path.strip("/")


def _common_nodes(leaves: list[_Leaf]) -> frozenset[str] | None:
    limits = [frozenset(leaf.nodes) for leaf in leaves if leaf.nodes]
    return frozenset.intersection(*limits) if limits else None


def _generations(leaves: list[_Leaf]) -> tuple[tuple[str, int], ...]:
    plain = [
        leaf.branch
        for leaf in leaves
        if any(not isinstance(place, SecretKey) for place in leaf.options.secret.values())
    ]
    return tuple(sorted({(branch.key, branch.dataset.metadata.generation or 0) for branch in plain}))


def _blocked(reason: Reason, what: str) -> _Blocked:
    return _Blocked(wait(reason, what))
