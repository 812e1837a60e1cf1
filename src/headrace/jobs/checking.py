"""The faults of a request by itself, before anybody is asked: all at once, sentences that name the flag."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from headrace.api.names import LABEL_PATTERN, SUBDOMAIN_PATTERN
from headrace.api.quantities import amount_of
from headrace.jobs.environments import RESERVED
from headrace.jobs.mount_paths import path_faults
from headrace.jobs.ranks_asked import ranks_asked
from headrace.jobs.spec import JobKind, JobSpec, Resources, RoleName

LONGEST_NAME = 49
"""As with Arena: names of pods and hosts are made of it."""

_LABEL = re.compile(LABEL_PATTERN)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(SUBDOMAIN_PATTERN)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = re.compile(rf"({SUBDOMAIN_PATTERN}/)?{_NAME}", re.ASCII)
_LABEL_VALUE = re.compile(rf"({_NAME})?", re.ASCII)
_OWN_LABELS = ("headrace.io/", "training.kubeflow.org/", "app.kubernetes.io/")
_OWN_WORDS = frozenset(("app", "release"))
_WORDS = {
    "--affinity-policy": ("none", "spread", "binpack"),
    "--affinity-constraint": ("preferred", "required"),
    "--success-policy": ("ChiefWorker", "AllWorkers"),
    "--image-pull-policy": ("Always", "IfNotPresent", "Never"),
    "--sync-mode": ("git", "rsync"),
}
# Kubernetes takes no larger one.
_LONGEST_S = 2**31 - 1


def faults(spec: JobSpec, *, needs_image: bool = True) -> list[str]:
    """Why nothing can be made of the request; empty when there is no reason."""
    return [
        *_naming(spec),
        *_program(spec, needs_image),
        *_environment(spec),
        *_counts(spec),
        *(fault for role in spec.roles for fault in _resources(role.name, role.resources)),
        *path_faults(spec),
        *_words(spec),
        *_labels(spec),
        *_times(spec),
    ]


def _naming(spec: JobSpec) -> Iterator[str]:
    if not spec.name:
        yield "--name is missing: how shall the job be called?"
    elif len(spec.name) > LONGEST_NAME or not _LABEL.fullmatch(spec.name):
        yield (
            f"--name {spec.name[:64]}: use up to {LONGEST_NAME} lower-case letters, digits and '-', "
            "a letter first, a letter or digit last"
        )
    if not _NAMESPACE.fullmatch(spec.namespace):
        yield f"--namespace {spec.namespace[:64]}: use up to 63 lower-case letters, digits and '-'"
    named = {
        "--priority": (spec.priority_class,),
        "--queue": (spec.queue,),
        "--scheduler": (spec.scheduler,),
        "--image-pull-secret": spec.image_pull_secrets,
    }
    for flag, names in named.items():
        yield from (f"{flag} {name[:64]} is not a name" for name in names if name and not _is_name(name))


def _program(spec: JobSpec, needs_image: bool) -> Iterator[str]:
    if not spec.command or not spec.command[0]:
        yield "the command is missing: write it behind the flags, like ./train.sh 4 8"
    if any("\0" in word for word in spec.command):
        yield "the command has a zero byte in it, which no program can be given"
    bare = [role.name.value for role in spec.roles if role.replicas and not (role.image or spec.image)]
    if needs_image and bare:
        yield f"--image is missing: pods need one ({', '.join(bare)})"
    asked, slots = ranks_asked(spec.command), _slots(spec)
    if spec.kind is JobKind.MPI and asked is not None and slots and asked > slots:
        yield (
            f"the command starts {asked} ranks, and there are slots for {slots} "
            f"(--workers × --gpus): change -np, --workers or --gpus"
        )
    if spec.code is not None and not spec.code.source:
        yield "--sync-source is missing: where is the code?"
    if spec.code is not None and spec.code.mode == "rsync" and not spec.code.image and needs_image:
        yield "--sync-image is missing: which image has rsync?"


def _slots(spec: JobSpec) -> int:
    worker = spec.role(RoleName.WORKER)
    return (worker.replicas if worker else 0) * spec.slots_per_worker


def _environment(spec: JobSpec) -> Iterator[str]:
    # Never a value: it may be a secret.
    for name, value in spec.environment.items():
        if not _VARIABLE.fullmatch(name):
            yield f"--env {name[:64]}: use letters, digits and '_' in names of variables, no digit first"
        elif name in RESERVED[spec.kind]:
            yield f"--env {name} is set by the job itself: leave it out"
        elif "\0" in value:
            yield f"--env {name} has a zero byte in its value, which no process can be given"


def _counts(spec: JobSpec) -> Iterator[str]:
    running = {role.name: role.replicas for role in spec.roles}
    counted = (RoleName.MASTER, RoleName.CHIEF, RoleName.WORKER)
    if not any(running.get(name) for name in counted):
        yield "--workers 0: a job needs at least one"
    if spec.kind is JobKind.MPI and not running.get(RoleName.LAUNCHER):
        yield "a job of MPI needs a launcher"
    for name, count in Counter(role.name for role in spec.roles).items():
        if count > 1:
            yield f"the role {name.value} stands there twice"
    word = spec.processes_per_node
    if word and word not in ("auto", "cpu", "gpu") and not re.fullmatch(r"[1-9][0-9]{0,4}", word, re.ASCII):
        yield f"--nproc-per-node {word[:32]}: known are auto, cpu, gpu and numbers above zero"


def _resources(role: RoleName, resources: Resources) -> Iterator[str]:
    sizes = {
        "cpu": resources.cpu,
        "memory": resources.memory,
        "cpu-limit": resources.cpu_limit,
        "memory-limit": resources.memory_limit,
    }
    for word, text in sizes.items():
        if text and not _is_amount(text):
            yield f"{word} {text[:32]} of {role.value}s is not a quantity above zero: write it like 500m, 2 or 1.5Gi"
    for what, asked, limit in (
        ("cpu", resources.cpu, resources.cpu_limit),
        ("memory", resources.memory, resources.memory_limit),
    ):
        if asked and limit and _is_amount(asked) and _is_amount(limit):
            least, most = amount_of(asked), amount_of(limit)
            if least is not None and most is not None and least > most:
                yield f"{what} of {role.value}s: {asked} is more than its limit {limit}"
    for name in resources.devices:
        if not _LABEL_KEY.fullmatch(name) or "/" not in name:
            yield f"--device {name[:64]} is not a resource: write it like amd.com/gpu=1"


def _words(spec: JobSpec) -> Iterator[str]:
    if spec.wait_warm_percent and spec.suspend:
        yield "--suspend and --wait-warm: a job is started by a person or by its data, leave one of them out"
    if spec.wait_warm_percent and not spec.data:
        yield "--wait-warm: there is no --data to wait for"
    said = [
        *(("--affinity-policy", role.affinity_policy) for role in spec.roles),
        *(("--affinity-constraint", role.affinity_constraint) for role in spec.roles),
        ("--success-policy", spec.success_policy),
        ("--image-pull-policy", spec.image_pull_policy),
        *((("--sync-mode", spec.code.mode),) if spec.code else ()),
    ]
    for flag, word in dict.fromkeys(said):
        if word not in _WORDS[flag]:
            yield f"{flag} {word[:32]}: known are {', '.join(_WORDS[flag])}"
    if spec.shared_memory and not _is_amount(spec.shared_memory):
        yield f"--share-memory {spec.shared_memory[:32]} is not a size: write it like 2Gi"
    if not spec.shell or any(sign.isspace() for sign in spec.shell):
        yield "--shell must name one program, like sh or bash"


def _labels(spec: JobSpec) -> Iterator[str]:
    yield from _pairs("--label", spec.labels)
    yield from _pairs("--selector", spec.selector)
    for role in spec.roles:
        yield from _pairs(f"--{role.name.value}-selector", role.selector or {})
    for key in spec.annotations:
        if not _is_key(key):
            yield f"--annotation {key[:64]} is not a key of an annotation"
    for flag, keys in (("--label", spec.labels), ("--annotation", spec.annotations)):
        for key in keys:
            if key.startswith(_OWN_LABELS) or (flag == "--label" and key in _OWN_WORDS):
                yield f"{flag} {key[:64]} is set by the job itself: leave it out"


def _pairs(flag: str, pairs: Mapping[str, str]) -> Iterator[str]:
    for key, value in pairs.items():
        if not _is_key(key):
            yield f"{flag} {key[:64]} is not a key of a label"
        elif not _LABEL_VALUE.fullmatch(value):
            yield f"{flag} {key}: its value is no value of a label: up to 63 letters, digits, '-', '_' and '.'"


def _times(spec: JobSpec) -> Iterable[str]:
    seconds = {
        "--running-timeout": spec.running_timeout_s,
        "--starting-timeout": spec.starting_timeout_s,
        "--ttl-after-finished": spec.ttl_after_finished_s or 0,
        "--retry": spec.retries,
    }
    return [
        f"{flag} is too large or below zero"
        for flag, number in seconds.items()
        if not 0 <= number <= _LONGEST_S
    ]


def _is_amount(text: str) -> bool:
    amount = amount_of(text)
    return amount is not None and amount > 0


def _is_name(text: str) -> bool:
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def _is_key(text: str) -> bool:
    return len(text.rpartition("/")[0]) <= 253 and _LABEL_KEY.fullmatch(text) is not None
