"""Objects that `get` shows although nobody declares them: the nodes, and the processes of datasets under the name of
pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.api.formats import format_age
from headrace.api.object_selectors import Selector
from headrace.api.printing import align, labels_text
from headrace.api.times import parse_time
from headrace.cli.views import document_view, is_table
from headrace.errors import ConfigError, MissingFileError
from headrace.local.protocol.messages import BackendStatus, NodeLine, RoleLine
from headrace.netns.rates import format_rate

Document = dict[str, Any]
_NODE_ROLE = "node-role.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class UndeclaredKind:
    """One kind: its words, its objects in a backend's status, and their table."""

    singular: str
    words: tuple[str, ...]
    namespaced: bool
    titles: tuple[str, ...]
    wide_titles: tuple[str, ...]
    documents: Callable[[BackendStatus], list[Document]]
    row: Callable[[Document, datetime], list[str]]


@dataclass(frozen=True, slots=True)
class Showing:
    """The form of the output."""

    namespace: str | None
    output: str | None = None
    with_headers: bool = True
    with_labels: bool = False


def asked_for(words: Sequence[str] | None) -> tuple[UndeclaredKind, tuple[str, ...]] | None:
    """The kind and the names, if that is what `nodes`, `node node-1` or `pod/imagenet-worker-0` mean."""
    first, *rest = words or [""]
    word, slash, name = first.partition("/")
    kind = next((kind for kind in KINDS if word.lower() in kind.words), None)
    if kind is None:
        return None
    names = [name, *(each.partition("/")[2] for each in rest)] if slash else rest
    if slash and any(each.partition("/")[0].lower() not in kind.words for each in rest):
        raise ConfigError.of(f"{kind.words[1]} are shown by themselves", hint=f"headrace get {kind.words[1]}")
    return kind, tuple(names)


def documents_of(
    kind: UndeclaredKind,
    names: Iterable[str],
    status: BackendStatus,
    namespace: str | None,
    selector: Selector,
) -> list[Document]:
    """The documents that are asked for. Raises `MissingFileError` for a name that is not there."""
    found = [each for each in kind.documents(status) if _is_in(each, namespace)]
    by_name = {each["metadata"]["name"]: each for each in found}
    for name in names:
        if name not in by_name:
            raise MissingFileError.of(
                f'{kind.words[1]} "{name[:253]}" not found', hint=f"headrace get {kind.words[1]}"
            )
    return [by_name[name] for name in names] or [each for each in found if selector.fits(each)]


def text_of(kind: UndeclaredKind, documents: list[Document], showing: Showing, *, is_one: bool) -> str:
    """The printed text of the objects."""
    if not is_table(showing.output):
        view = document_view(showing.output or "", lambda each: f"{kind.singular}/{each['metadata']['name']}")
        return view.all(documents, is_one)
    now, wide = datetime.now(UTC), showing.output == "wide"
    with_namespace = kind.namespaced and showing.namespace is None
    titles = [*kind.titles, *(kind.wide_titles if wide else ())]
    head = [*(["NAMESPACE"] if with_namespace else []), *titles, *(["LABELS"] if showing.with_labels else [])]
    rows = []
    for each in documents:
        cells = kind.row(each, now)[: len(titles)]
        cells = [each["metadata"]["namespace"], *cells] if with_namespace else cells
        rows.append([*cells, labels_text(each["metadata"]["labels"])] if showing.with_labels else cells)
    text = align([head, *rows])
    return text if showing.with_headers else text.partition("\n")[2]


def process_name(role: RoleLine) -> str:
    """`imagenet-worker-0`: a process as `get pods` and `logs` call it."""
    return f"{role.dataset}-{role.id.rpartition('.')[2]}"


def process_labels(role: RoleLine) -> dict[str, str]:
    """Labels by which `get pods` and `logs` find processes."""
    return {"dataset": role.dataset, "role": role.role, "node": role.node}


def _is_in(document: Document, namespace: str | None) -> bool:
    own = document["metadata"].get("namespace")
    return namespace is None or own is None or own == namespace


def _nodes(status: BackendStatus) -> list[Document]:
    return [_node(line, status) for line in status.nodes]


def _node(line: NodeLine, status: BackendStatus) -> Document:
    taints = [{name: value for name, value in each.model_dump().items() if value} for each in line.taints]
    ready = {"type": "Ready", "status": "True" if line.state == "Ready" else "False"}
    metadata: Document = {"name": line.name, "labels": line.labels}
    metadata |= {"annotations": line.annotations} if line.annotations else {}
    metadata |= {"creationTimestamp": line.created} if line.created else {}
    addresses = [("InternalIP", line.address), ("Hostname", line.name)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": taints} if taints else {},
        "status": {
            "addresses": [{"type": kind, "address": address} for kind, address in addresses],
            "conditions": [ready],
            "nodeInfo": {"kubeletVersion": status.release},
            "linkBitsPerSecond": line.link_bits_per_s,
        },
    }


def _node_row(document: Document, now: datetime) -> list[str]:
    metadata, status = document["metadata"], document["status"]
    roles = [key.removeprefix(_NODE_ROLE) for key in metadata["labels"] if key.startswith(_NODE_ROLE)]
    rate = status["linkBitsPerSecond"]
    return [
        metadata["name"],
        "Ready" if status["conditions"][0]["status"] == "True" else "NotReady",
        ",".join(sorted(roles)) or "<none>",
        _age(metadata, now),
        status["nodeInfo"]["kubeletVersion"],
        status["addresses"][0]["address"],
        format_rate(rate) if rate else "<none>",
        ",".join(map(taint_text, document["spec"].get("taints", ()))) or "<none>",
    ]


def taint_text(taint: dict[str, str]) -> str:
    """`gpu=v100:NoSchedule`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _processes(status: BackendStatus) -> list[Document]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": process_name(role),
                "namespace": role.namespace,
                "labels": process_labels(role),
                "creationTimestamp": role.since,
            },
            "spec": {"nodeName": role.node},
            "status": {
                "phase": "Running" if role.state == "running" else "Failed",
                "health": role.health or role.state,
                "message": role.message,
                "restartCount": role.restarts,
                "pid": role.pid,
            },
        }
        for role in status.roles
    ]


def _process_row(document: Document, now: datetime) -> list[str]:
    metadata, status = document["metadata"], document["status"]
    return [
        metadata["name"],
        "1/1" if status["health"] == "ready" else "0/1",
        _STATUS_WORDS.get(status["health"], status["phase"]),
        str(status["restartCount"]),
        _age(metadata, now),
        document["spec"]["nodeName"],
        str(status["pid"] or "<none>"),
    ]


_STATUS_WORDS = {
    "starting": "Starting",
    "ready": "Running",
    "draining": "Terminating",
    "failed": "CrashLoopBackOff",
    "ended": "Completed",
}


def _age(metadata: Document, now: datetime) -> str:
    since = metadata.get("creationTimestamp")
    return format_age(parse_time(since), now) if since else "<unknown>"


KINDS = (
    UndeclaredKind(
        "node",
        ("node", "nodes", "no"),
        namespaced=False,
        titles=("NAME", "STATUS", "ROLES", "AGE", "VERSION"),
        wide_titles=("INTERNAL-IP", "LINK", "TAINTS"),
        documents=_nodes,
        row=_node_row,
    ),
    UndeclaredKind(
        "pod",
        ("pod", "pods", "po"),
        namespaced=True,
        titles=("NAME", "READY", "STATUS", "RESTARTS", "AGE"),
        wide_titles=("NODE", "PID"),
        documents=_processes,
        row=_process_row,
    ),
)
