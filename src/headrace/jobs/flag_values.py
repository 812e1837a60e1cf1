"""The values of flags: `imagenet:/data`, `gpu=v100:NoSchedule`, `1h30m`. Words in, values out; every fault is told."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterable

from headrace.api.go_durations import parse_duration
from headrace.errors import ConfigError, UnsupportedError
from headrace.jobs.spec import CleanPolicy, DataVolume, HostFolder, JobKind, RoleName, Toleration

_KINDS = {
    JobKind.MPI: ("mpijob", "mpi", "mj"),
    JobKind.PYTORCH: ("pytorchjob", "pytorch", "py"),
    JobKind.TF: ("tfjob", "tensorflow", "tf"),
}
_OTHER_KINDS = frozenset(
    (
        *("horovodjob", "horovod", "hj", "volcanojob", "vj", "etjob", "et", "sparkjob", "spark"),
        *("deepspeedjob", "deepspeed", "dp", "rayjob", "ray", "rj"),
    )
)
_ROLES = {
    "w": RoleName.WORKER,
    "p": RoleName.PS,
    "c": RoleName.CHIEF,
    "e": RoleName.EVALUATOR,
    "worker": RoleName.WORKER,
    "ps": RoleName.PS,
    "chief": RoleName.CHIEF,
    "evaluator": RoleName.EVALUATOR,
}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Equal", "Exists")
_DAYS = re.compile(r"(?P<days>\d+)d(?P<rest>.*)", re.ASCII | re.DOTALL)
_GPU = "nvidia.com/gpu"


def parse_kind(text: str) -> JobKind:
    """The kind that `mpi`, `MPIJob`, `tf` and so on mean, in any case. Raises `ConfigError` or `UnsupportedError`."""
    word = text.lower()
    for kind, names in _KINDS.items():
        if word in names:
            return kind
    known = ", ".join(f"{kind.value} ({', '.join(names[1:])})" for kind, names in _KINDS.items())
    if word in _OTHER_KINDS:
        raise UnsupportedError.of(f"jobs of the kind {word} are not made here", hint=f"known are {known}")
    raise ConfigError.of(f"'{text[:64]}' is no kind of job", hint=f"known are {known}")


def parse_pairs(words: Iterable[str], flag: str) -> dict[str, str]:
    """Of `KEY=VALUE` words; split at the first `=`, the last of a key wins. Raises `ConfigError`."""
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            # What stands there may be a secret whose key was forgotten.
            shown = f"{flag} {key}" if key and flag != "--env" else flag
            raise ConfigError.of(
                f"{shown} is not KEY=VALUE", hint=f"write {flag} KEY=VALUE; the value may be empty"
            )
        pairs[key] = value
    return pairs


def parse_data(word: str) -> DataVolume:
    """Of `imagenet:/data`, `imagenet/train:/data`, `imagenet:/data:ro`. Raises `ConfigError`."""
    source, path, mode = _split(word, "--data", "CLAIM[/FOLDER]:/PATH[:ro]")
    if mode not in ("", "ro", "rw"):
        raise ConfigError.of(
            f"--data {word[:128]}: '{mode}' is neither ro nor rw", hint="write it like imagenet:/data:ro"
        )
    claim, _, folder = source.partition("/")
    return DataVolume(claim=claim, path=_normal(path), sub_path=folder.strip("/"), read_only=mode == "ro")


def parse_data_dir(word: str) -> HostFolder:
    """Of `/mnt/jfs/test:/data` and `/mnt/jfs/test`, which is seen at the same path. Raises `ConfigError`."""
    source, path, rest = _split(word, "--data-dir", "/FOLDER[:/PATH]", needs_path=False)
    if rest:
        raise ConfigError.of(f"--data-dir {word[:128]} has too many parts", hint="write /FOLDER[:/PATH]")
    return HostFolder(host_path=_normal(source), path=_normal(path or source))


def parse_config_file(word: str) -> tuple[str, str]:
    """The local file and where processes see it; empty: at its own absolute path. Raises `ConfigError`."""
    source, path, rest = _split(word, "--config-file", "FILE[:/PATH]", needs_path=False)
    if rest:
        raise ConfigError.of(f"--config-file {word[:128]} has too many parts", hint="write FILE[:/PATH]")
    return source, _normal(path) if path else ""


def parse_toleration(word: str) -> Toleration:
    """Of `gpu=v100:NoSchedule`, `gpu:NoSchedule,Exists`, `gpu`, and `all`. Raises `ConfigError`."""
    if word == "all":
        return Toleration(operator="Exists")
    taint, comma, operator = word.partition(",")
    pair, colon, effect = taint.rpartition(":") if ":" in taint else (taint, "", "")
    key, equals, value = pair.partition("=")
    operator = operator or ("Equal" if equals else "Exists")
    wrong = (
        not key
        or (colon and effect not in _EFFECTS)
        or operator not in _OPERATORS
        or (comma and not word.rpartition(",")[2])
        or (operator == "Exists" and equals and value)
        or (operator == "Equal" and not equals)
    )
    if wrong:
        raise ConfigError.of(
            f"--toleration {word[:128]} is not KEY[=VALUE][:EFFECT][,OPERATOR]",
            hint=f"effects are {', '.join(_EFFECTS)}, operators Equal and Exists (without a value); or `all`",
        )
    return Toleration(key=key, operator=operator, value=value, effect=effect)


def parse_devices(words: Iterable[str]) -> dict[str, int]:
    """Of `amd.com/gpu=1` words. Raises `ConfigError`."""
    devices: dict[str, int] = {}
    for name, count in parse_pairs(words, "--device").items():
        if name == _GPU:
            raise ConfigError.of(f"--device cannot name {_GPU}", hint="use --gpus COUNT")
        if not re.fullmatch(r"[1-9][0-9]{0,5}", count, re.ASCII):
            raise ConfigError.of(
                f"--device {name}={count[:32]}: not a whole number above zero", hint=f"like {name}=1"
            )
        devices[name] = int(count)
    return devices


def parse_seconds(text: str, flag: str) -> int:
    """Whole seconds, rounded up, of `90s`, `1h30m`, `7d`, `2d12h` or a number of seconds. Raises `ConfigError`."""
    match = _DAYS.fullmatch(text.strip())
    days, rest = (int(match["days"]), match["rest"]) if match else (0, text)
    try:
        return days * 86400 + (math.ceil(parse_duration(rest)) if rest or not match else 0)
    except ConfigError as error:
        raise ConfigError.of(f"{flag} {text[:64]} is not a duration", hint=error.hint) from None


def parse_clean_policy(text: str) -> CleanPolicy:
    """All, Running or None, in any case. Raises `ConfigError`."""
    for policy in CleanPolicy:
        if policy.value.lower() == text.lower():
            return policy
    raise ConfigError.of(
        f"--clean-task-policy {text[:64]} is not known", hint="known are All, Running and None"
    )


def parse_role_sequence(text: str) -> tuple[RoleName, ...]:
    """Of `w,p,c,e` or `Worker,PS`. Raises `ConfigError`."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word.lower() not in _ROLES]
    if unknown or len(set(words)) < len(words):
        raise ConfigError.of(
            f"--role-sequence {text[:64]} is no order of roles", hint="write it like w,p,c,e, each role once"
        )
    return tuple(_ROLES[word.lower()] for word in words)


def _split(word: str, flag: str, form: str, *, needs_path: bool = True) -> tuple[str, str, str]:
    """What stands before, behind the first and behind the second colon."""
    source, first, rest = word.partition(":")
    path, second, more = rest.partition(":")
    wrong = not source or (not path and (needs_path or first)) or (second and not more) or ":" in more
    if wrong:
        raise ConfigError.of(f"{flag} {word[:128]} is not {form}", hint=f"write it as {form}")
    return source, path, more


def _normal(path: str) -> str:
    """Without `//`, `.` and a closing `/`; relative paths stay so, and are told of later."""
    normal = posixpath.normpath(path)
    return f"/{normal.lstrip('/')}" if normal.startswith("//") else normal
