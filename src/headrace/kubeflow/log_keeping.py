"""Puts the logs of a pod where they outlive it. Only reads and writes; what is kept is decided in `kept_logs`."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from headrace.errors import ConfigError, HeadraceError, MissingFileError
from headrace.kube.faults import ConflictError
from headrace.kube.pod_logs import LogQuery
from headrace.kubeflow.cluster_api import Cluster
from headrace.kubeflow.kept_logs import LogWindow, config_maps
from headrace.kubeflow.names import Content
from headrace.kubeflow.pod_states import containers_of, has_ended, is_leaving

_log = logging.getLogger("headrace.jobs")
# A pod that is told to end has 30 s by default.
_LEAVING_S = 35.0


async def keep_log(cluster: Cluster, job: Content, pod: Content, *, limit_bytes: int) -> bool:
    """Keeps what the pod's containers printed. False when that could not be done, and may be later."""
    for container in containers_of(pod):
        try:
            text = await _text(cluster, pod, container, limit_bytes)
        except (MissingFileError, ConfigError):
            # The pod is gone, or the container never began: there is nothing to wait for.
            continue
        except HeadraceError as error:
            _log.warning("pod/%s: its log cannot be read: %s", pod["metadata"]["name"], error)
            return False
        for each in config_maps(job, pod, container, text):
            # Who was killed in between finds its own work.
            with contextlib.suppress(ConflictError):
                await cluster.create(each)
    return True


def _ends_soon(pod: Content) -> bool:
    return is_leaving(pod) and not has_ended(pod)


async def _text(cluster: Cluster, pod: Content, container: str, limit_bytes: int) -> bytes:
    """The log; of a pod that is leaving with what it prints until it is gone."""
    window = LogWindow(limit_bytes)
    metadata = pod["metadata"]
    query = LogQuery(container=container, timestamps=True, follow=_ends_soon(pod))
    try:
        async with asyncio.timeout(_LEAVING_S):
            async for line in cluster.log(metadata["namespace"], metadata["name"], query):
                window.add(line if line.endswith(b"\n") else line + b"\n")
    except TimeoutError:
        _log.info("pod/%s: its log is kept as far as it came", metadata["name"])
    return window.text()
