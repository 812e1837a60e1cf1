"""The rows of very many datasets, and of datasets of very many files, as data."""

from __future__ import annotations

from benchmarks.report.statistics import Better
from benchmarks.samples import Row

IDLE = "nothing changes"


def _of_backend(key: str, title: str, unit: str, cache: str = "") -> Row:
    return Row(key, title, unit, Better.LOWER, cache, compare=False)


def declared_answer(count: int) -> Row:
    return _of_backend(
        f"declared-answer-{count}", f"{count:,} datasets applied: until that is acknowledged", "s"
    )


def declared_told(count: int) -> Row:
    return _of_backend(
        f"declared-told-{count}", f"{count:,} datasets applied: until every status is true", "s"
    )


def declared_idle(count: int) -> Row:
    title = f"{count:,} datasets that wait: the supervisor's processor"
    return _of_backend(f"declared-idle-{count}", title, "% of one", IDLE)


def declared_memory(count: int) -> Row:
    return _of_backend(f"declared-memory-{count}", f"{count:,} datasets: the supervisor's memory", "MiB")


def declared_change(count: int) -> Row:
    title = f"one change among {count:,} datasets, until the status tells"
    return _of_backend(f"declared-change-{count}", title, "ms")


def declared_get(count: int) -> Row:
    return _of_backend(f"declared-get-{count}", f"headrace get dataset -A, of {count:,}", "s")


def declared_gone(count: int) -> Row:
    return _of_backend(f"declared-gone-{count}", f"{count:,} datasets deleted at once", "s")


def declared_rows(count: int) -> tuple[Row, ...]:
    """All rows about datasets that wait."""
    made = (declared_answer, declared_told, declared_idle, declared_memory)
    return tuple(row(count) for row in (*made, declared_change, declared_get, declared_gone))


def served_mounted(count: int) -> Row:
    return _of_backend(f"served-mounted-{count}", f"{count} datasets applied: until all are mounted", "s")


def served_memory(count: int, role: str) -> Row:
    return _of_backend(f"served-{role}-{count}", f"{count} datasets served: memory of a {role}", "MiB", IDLE)


def served_supervisor(count: int) -> Row:
    title = f"{count} datasets served: the supervisor's processor"
    return _of_backend(f"served-supervisor-{count}", title, "% of one", IDLE)


def served_roles(count: int) -> Row:
    title = f"{count} datasets served: processor of one's master, worker and mount"
    return _of_backend(f"served-roles-{count}", title, "% of one", IDLE)


def served_gone(count: int) -> Row:
    return _of_backend(f"served-gone-{count}", f"{count} datasets deleted at once while they are served", "s")


def served_rows(count: int) -> tuple[Row, ...]:
    """All rows about datasets that are served."""
    memory = tuple(served_memory(count, role) for role in ("master", "worker", "mount"))
    others = (served_mounted, served_supervisor, served_roles, served_gone)
    return (*memory, *(row(count) for row in others))


KUBERNETES_BOUND = _of_backend(
    "kubernetes-bound", "kubectl create of a dataset with two workers, until it is Bound", "s", "images there"
)


def operator_made(count: int) -> Row:
    title = f"kubectl create of {count:,} datasets, until each has the pod of its master"
    return _of_backend(f"operator-made-{count}", title, "s")


def operator_memory(count: int) -> Row:
    return _of_backend(
        f"operator-memory-{count}", f"the operator's memory with {count:,} datasets", "MiB", IDLE
    )


def operator_rows(count: int) -> tuple[Row, ...]:
    """All rows about the operator of a cluster with many datasets."""
    return (operator_memory(0), operator_made(count), operator_memory(count))


OF_MANY = {
    "open again": "mount again",
    "status, next": "a status",
    "heartbeat with all pinned": "a worker's heartbeat, all pinned",
    "pin all": "pin all on a worker",
    "evict all": "evict all on a worker, which has none",
}
OF_MANY_CACHED = {
    "open with cache": "mount again",
    "status with cache, first": "the first status",
    "status after a change": "a status after a change",
    "heartbeat with cache": "a worker's heartbeat",
    "evict cached": "evict all",
}


def many_files_rows(files: int, cached: int) -> dict[str, Row]:
    """Step of `many_files` → its row."""
    few = {step: f"{files:,} files: {title}" for step, title in OF_MANY.items()}
    many = {step: f"{cached:,} of {files:,} files cached: {title}" for step, title in OF_MANY_CACHED.items()}
    return {
        step: _of_backend(f"many-{files}-{step.replace(',', '').replace(' ', '-')}", title, "s")
        for step, title in (few | many).items()
    }
