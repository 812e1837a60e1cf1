"""The request that the flags of `arena submit` mean. Pure but for the files that are handed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from headrace.cli.arena.flags import Values
from headrace.errors import ConfigError
from headrace.jobs import flag_values
from headrace.jobs.job_roles import roles_of
from headrace.jobs.spec import CleanPolicy, CodeSync, ConfigFile, JobKind, JobSpec, TensorBoard

_LARGEST_FILES_BYTES = 900 << 10


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The context of a request beside its words: how a local file is read."""

    namespace: str
    read: Callable[[str], str]


def request_of(kind: JobKind, values: Values, context: RequestContext) -> JobSpec:
    """The request. Raises `ConfigError` for values that cannot be understood; what they mean is checked later."""
    clean = (
        flag_values.parse_clean_policy(values["clean_task_policy"]) if values["clean_task_policy"] else None
    )
    ttl = values["ttl_after_finished"]
    return JobSpec(
        name=values["name"],
        namespace=context.namespace,
        kind=kind,
        roles=roles_of(kind, values),
        image=values["image"],
        command=tuple(values["command"]),
        shell=values["shell"],
        working_dir=values["working_dir"],
        environment=flag_values.parse_pairs(values["env"], "--env"),
        data=tuple(map(flag_values.parse_data, values["data"])),
        host_folders=tuple(map(flag_values.parse_data_dir, values["data_dir"])),
        config_files=config_files(values["config_file"], context.read),
        annotations=flag_values.parse_pairs(values["annotation"], "--annotation"),
        labels=flag_values.parse_pairs(values["label"], "--label"),
        selector=flag_values.parse_pairs(values["selector"], "--selector"),
        tolerations=tuple(map(flag_values.parse_toleration, values["toleration"])),
        priority_class=values["priority"],
        scheduler=values["scheduler"],
        gang=values["gang"],
        queue=values["queue"],
        suspend=values["suspend"],
        image_pull_policy=values["image_pull_policy"],
        image_pull_secrets=tuple(values["image_pull_secret"]),
        host_network=values["hostnetwork"],
        host_ipc=values["hostipc"],
        host_pid=values["hostpid"],
        rdma=values["rdma"],
        shared_memory=values["share_memory"],
        retries=_count(values["retry"], "--retry"),
        clean_policy=clean or (CleanPolicy.ALL if kind is JobKind.MPI else CleanPolicy.RUNNING),
        running_timeout_s=_seconds(values["running_timeout"], "--running-timeout"),
        starting_timeout_s=_seconds(values["starting_timeout"], "--starting-timeout"),
        ttl_after_finished_s=flag_values.parse_seconds(ttl, "--ttl-after-finished") if ttl else None,
        mounts_on_launcher=values.get("mounts_on_launcher", False),
        processes_per_node=values.get("nproc_per_node", ""),
        success_policy=values.get("success_policy", "ChiefWorker"),
        role_sequence=flag_values.parse_role_sequence(values.get("role_sequence", "")),
        code=_code(values),
        tensorboard=_tensorboard(values),
        wait_warm_percent=_percent(values["wait_warm"]),
    )


def ignored(values: Values) -> list[str]:
    """The words that have no meaning with any backend, each as a sentence."""
    meanings = {
        "model_name": "--model-name is ignored: there is no model registry",
        "model_source": "--model-source is ignored: there is no model registry",
        "gputopology": "--gputopology is ignored: it belongs to Alibaba's scheduler",
    }
    return [sentence for name, sentence in meanings.items() if values.get(name)]


def config_files(entries: list[str], read: Callable[[str], str]) -> tuple[ConfigFile, ...]:
    """The files with their content. Raises `ConfigError` when they are too large for a Secret together."""
    found = []
    for entry in entries:
        source, path = flag_values.parse_config_file(entry)
        content = SecretStr(read(source))
        found.append(ConfigFile(path=path or str(Path(source).absolute()), content=content))
    if sum(len(file.content.get_secret_value().encode()) for file in found) > _LARGEST_FILES_BYTES:
        raise ConfigError.of(
            f"the files of --config-file are larger than {_LARGEST_FILES_BYTES >> 10} KiB together",
            hint="put large files into a volume",
        )
    return tuple(found)


def _code(values: Values) -> CodeSync | None:
    if not values["sync_mode"]:
        if values["sync_source"]:
            raise ConfigError.of("--sync-source needs --sync-mode", hint="--sync-mode git")
        return None
    return CodeSync(mode=values["sync_mode"], source=values["sync_source"], image=values["sync_image"])


def _tensorboard(values: Values) -> TensorBoard | None:
    if not values["tensorboard"]:
        return None
    return TensorBoard(image=values["tensorboard_image"], log_dir=values["logdir"])


def _seconds(text: str, flag: str) -> int:
    return flag_values.parse_seconds(text, flag) if text else 0


def _count(number: int, flag: str) -> int:
    if number < 0:
        raise ConfigError.of(f"{flag} {number} is below zero")
    return number


def _percent(text: str) -> int:
    digits = text.strip().removesuffix("%").strip()
    if not text:
        return 0
    if not digits.isascii() or not digits.isdigit() or not 1 <= int(digits) <= 100:
        raise ConfigError.of(
            f"--wait-warm {text[:32]} is no percentage from 1 to 100", hint="like --wait-warm 80"
        )
    return int(digits)
