"""The backend that a command on jobs speaks to: the one that is named, the local one if it is up, or the cluster."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from headrace.cli.arena.flags import Values
from headrace.errors import ConfigError, HeadraceError, MissingFileError
from headrace.jobs.backend import JobBackend
from headrace.local.layout import BackendLayout
from headrace.local.protocol.client import LocalClient
from headrace.settings.environment import Environment

_NAMES = {"local": "local", "kubernetes": "kubernetes", "k8s": "kubernetes"}


def backend_of(values: Values) -> JobBackend:
    """The backend that these flags and the environment mean. Raises `ConfigError` when there is none."""
    environment = Environment.current()
    kubeconfig = str(values.get("config") or "")
    name = _named(str(values.get("backend") or environment.get("HEADRACE_JOBS_BACKEND") or ""))
    if name == "local" and kubeconfig:
        raise ConfigError.of(
            "--config names a cluster, and --backend local this machine", hint="leave one of them out"
        )
    if name == "local" or (not name and not kubeconfig and _is_local_up(environment)):
        return OPENERS["local"](environment, kubeconfig)
    if name or kubeconfig or environment.has_kubeconfig:
        return OPENERS["kubernetes"](environment, kubeconfig)
    raise ConfigError.of(
        "jobs can run nowhere: the local backend is not up, and there is no kubeconfig",
        hint="headrace up --nodes 4 for this machine; --config FILE or KUBECONFIG for a cluster",
    )


def _named(word: str) -> str:
    if word and word.lower() not in _NAMES:
        raise ConfigError.of(f"--backend {word[:32]} is not known", hint="known are local and kubernetes")
    return _NAMES.get(word.lower(), "")


def _is_local_up(environment: Environment) -> bool:
    try:
        LocalClient(BackendLayout.of(environment)).hello()
    except (MissingFileError, ConfigError):
        # No supervisor, or none that could be: the name of its socket would be too long.
        return False
    except HeadraceError:
        # It is there and unwell: its own words say more than those of a cluster that was not meant.
        return True
    return True


def _open_local(environment: Environment, _kubeconfig: str) -> JobBackend:
    module = importlib.import_module("headrace.local.jobs.job_client")
    return cast(JobBackend, module.LocalJobBackend(BackendLayout.of(environment)))


def _open_kubernetes(_environment: Environment, kubeconfig: str) -> JobBackend:
    module = importlib.import_module("headrace.kubeflow.job_backend")
    return cast(JobBackend, module.KubeflowBackend.open(kubeconfig or None, None))


OPENERS: dict[str, Callable[[Environment, str], JobBackend]] = {
    "local": _open_local,
    "kubernetes": _open_kubernetes,
}
"""Tests put their own in."""
