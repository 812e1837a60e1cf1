"""The one reader of environment variables: every name that Headrace looks at stands in this table.

The rest of the code gets what it needs from an `Environment`, so a test can hand in a dictionary.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

HEADRACE_VARIABLES: Mapping[str, str] = {
    "HEADRACE_CONFIG": "The configuration file, instead of the usual places",
    "HEADRACE_RUNTIME_DIR": "Where running mounts are registered, instead of the usual places",
    "HEADRACE_STATE_DIR": "Where snapshots and locks are kept, instead of the usual places",
    "HEADRACE_CACHE_DIR": "Where cache folders are made when no --cache is given",
    "HEADRACE_TRUSTED_FOLDERS": "Folders, with colons between, used with all in them whoever may write to them",
    "HEADRACE_MASTER": "URL of the master of a cluster",
    "HEADRACE_TOKEN": "The token of a cluster itself",
    "HEADRACE_TOKEN_FILE": "The file that holds the token of a cluster",
    "HEADRACE_ROLE_MARK": "Set by the local backend in the processes that it starts, to find them again",
    "HEADRACE_BACKEND_LOCK": "Set by the local backend in mounts that it starts: the lock of whoever looks after it",
    "HEADRACE_NODE": "Set by `headrace run`: the node that the program runs on",
    "HEADRACE_NODE_ADDRESS": "Set by `headrace run`: the address of that node",
    "HEADRACE_DATASET_NAME": "Set by `headrace run`, with the dataset's name in the place of NAME: where its files are",
    "HEADRACE_ENGINE_IMAGE": "Set by the chart: the image of masters, workers and mounts that the operator makes",
    "HEADRACE_ENGINE_PULL_POLICY": "Set by the chart: when that image is pulled",
    "HEADRACE_JOBS_BACKEND": "Where `arena` runs jobs when --backend does not say it: local or kubernetes",
    "HEADRACE_LOG": "Level of the log: error, warn, info, debug or trace",
    "HEADRACE_DEBUG": "1: show the traceback of an error",
}
"""Headrace's own variables with their meaning. Each role's settings have variables, too: `HEADRACE_WORKER_LISTEN`."""

TOKEN_VARIABLE = "HEADRACE_TOKEN"  # noqa: S105 - a name, not a token
"""Holds the token itself, so it is kept from the environment of the processes that we start."""

ROLE_MARK = "HEADRACE_ROLE_MARK"
"""Says which role of which local backend a process belongs to."""

BACKEND_LOCK = "HEADRACE_BACKEND_LOCK"
"""Names the lock of the local backend that a mount belongs to."""


def dataset_variable(name: str) -> str:
    """The variable that says where a dataset is: `HEADRACE_DATASET_MY_SET` for my-set."""
    return f"HEADRACE_DATASET_{name.upper().replace('-', '_').replace('.', '_')}"


# Neither this nor the values that `headrace status` needs are dataclasses: the module of those takes longer to load
# than all of them together.
class Environment:
    """The variables of this process, and what follows from them. Its text shows none of them."""

    __slots__ = ("variables",)

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables

    @classmethod
    def current(cls) -> Environment:
        """The variables as they are now."""
        return cls(dict(os.environ))

    def get(self, name: str) -> str | None:
        """The value of a variable; `None` when it is unset or empty."""
        return self.variables.get(name) or None

    def first(self, names: Iterable[str]) -> str | None:
        """The value of the first variable of `names` that is set."""
        return next((value for name in names if (value := self.get(name))), None)

    @property
    def debug(self) -> bool:
        """True when tracebacks are wanted."""
        return self.get("HEADRACE_DEBUG") not in (None, "0")

    @property
    def proxies(self) -> dict[str, str]:
        """The proxies that programs go by: `https_proxy`, `no_proxy`, …; names in small letters count first."""
        names = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
        return {name: value for name in names if (value := self.first((name, name.upper())))}

    @property
    def editor(self) -> str:
        """The command of the user's editor."""
        return self.first(("KUBE_EDITOR", "EDITOR")) or "vi"

    @property
    def home(self) -> Path:
        """The user's home folder."""
        home = self.get("HOME")
        return Path(home) if home else Path("~").expanduser()

    @property
    def has_kubeconfig(self) -> bool:
        """True when a cluster is known: by KUBECONFIG, by the usual file, or since this runs in a pod."""
        named = self.get("KUBECONFIG")
        files = [Path(part) for part in (named or "").split(os.pathsep) if part]
        usual = files or [self.home / ".kube" / "config"]
        return any(file.is_file() for file in usual) or self.get("KUBERNETES_SERVICE_HOST") is not None

    @property
    def config_files(self) -> tuple[Path, ...]:
        """The possible places of the configuration file; the first one that exists wins."""
        if named := self.get("HEADRACE_CONFIG"):
            return (Path(named),)
        user = Path(self.get("XDG_CONFIG_HOME") or self.home / ".config")
        return (user / "headrace" / "config.toml", Path("/etc/headrace/config.toml"))

    @property
    def unit_directory(self) -> Path:
        """The folder of systemd's services: the machine's for root, else this user's."""
        if os.geteuid() == 0:
            return Path("/etc/systemd/system")
        return Path(self.get("XDG_CONFIG_HOME") or self.home / ".config") / "systemd" / "user"

    @property
    def runtime_directory(self) -> Path:
        """The folder where running mounts are registered: one that a restart of the machine empties, if there is
        one."""
        if named := self.get("HEADRACE_RUNTIME_DIR"):
            return Path(named)
        if os.geteuid() == 0:
            return Path("/run/headrace")
        if runtime := self.get("XDG_RUNTIME_DIR"):
            return Path(runtime) / "headrace"
        return self.state_directory / "run"

    @property
    def state_directory(self) -> Path:
        """The folder of snapshots, locks and sockets, with a folder for each dataset."""
        if named := self.get("HEADRACE_STATE_DIR"):
            return Path(named)
        if os.geteuid() == 0:
            return Path("/var/lib/headrace")
        return Path(self.get("XDG_STATE_HOME") or self.home / ".local" / "state") / "headrace"

    @property
    def cache_directory(self) -> Path:
        """The folder of cache folders when none are named."""
        if named := self.get("HEADRACE_CACHE_DIR"):
            return Path(named)
        return Path(self.get("XDG_CACHE_HOME") or self.home / ".cache") / "headrace"

    @property
    def trusted_folders(self) -> frozenset[Path]:
        """Folders that nobody else reaches: owners and modes in them do not matter."""
        named = self.get("HEADRACE_TRUSTED_FOLDERS") or ""
        return frozenset(Path(part) for part in named.split(":") if part.startswith("/"))


def forget(names: Collection[str]) -> bool:
    """Unsets these variables of this process, also where /proc shows them; whether they are gone from there. Nobody may
    be reading variables meanwhile.
    """
    for name in os.environ.keys() & set(names):
        del os.environ[name]
    with contextlib.suppress(OSError):
        _overwrite(names)
        return not any(
            _name(entry) in names for entry in Path("/proc/self/environ").read_bytes().split(b"\0")
        )
    return False


def _overwrite(names: Collection[str]) -> None:
    """Fills these variables with zeros in the memory that /proc/PID/environ is read from (`env_start` and `env_end` of
    proc_pid_stat(5)). Nothing else reads it: they are unset.
    """
    # The second field is the name of the program, in brackets, and may hold anything.
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        for entry in os.pread(memory, end - start, start).split(b"\0"):
            if _name(entry) in names:
                os.pwrite(memory, bytes(len(entry)), start)
            start += len(entry) + 1
    finally:
        os.close(memory)


def _name(entry: bytes) -> str:
    return entry.partition(b"=")[0].decode("utf-8", "replace")
