"""Leader election by a Lease of a real API server."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.kube.client import KubeClient
from headrace.kube.connection import configuration
from headrace.kube.election import Terms
from headrace.kube.leadership import Leadership, LeadershipLostError, candidate

NAME = "operator"
TERMS = Terms(duration_s=4.0, renew_deadline_s=2.5, retry_s=0.5)
# Says when it leads, and then works until it is killed or loses.
PROCESS = """
import asyncio, sys
from headrace.kube.client import KubeClient
from headrace.kube.connection import configuration
from headrace.kube.election import Terms
from headrace.kube.leadership import Leadership

async def work():
    print("leads", flush=True)
    await asyncio.Event().wait()

async def main(kubeconfig, namespace, me):
    async with KubeClient(await configuration(kubeconfig)) as client:
        terms = Terms(duration_s=8.0, renew_deadline_s=6.0, retry_s=0.5)
        await Leadership(client, namespace, "operator", me, terms=terms).lead(work)

asyncio.run(main(*sys.argv[1:]))
"""


def _process(kubeconfig: Path, namespace: str, me: str) -> subprocess.Popen[str]:
    words = (sys.executable, "-c", PROCESS, str(kubeconfig), namespace, me)
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _holder(kubernetes, namespace: str) -> str:
    return str(kubernetes.get("lease", NAME, "-n", namespace)["spec"]["holderIdentity"])


def test_when_the_leader_is_killed_the_next_one_leads_and_the_first_is_a_candidate_again(
    kubernetes, namespace
):
    first = _process(kubernetes.kubeconfig, namespace, "first")
    second = None
    try:
        assert _said(first) == "leads"
        second = _process(kubernetes.kubeconfig, namespace, "second")
        assert _holder(kubernetes, namespace) == "first"
        first.send_signal(signal.SIGKILL)
        assert _said(second) == "leads"
        assert _holder(kubernetes, namespace) == "second"
        assert kubernetes.get("lease", NAME, "-n", namespace)["spec"]["leaseTransitions"] == 1
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.communicate()


def test_a_leader_that_was_frozen_ends_when_it_wakes_up(kubernetes, namespace):
    first = _process(kubernetes.kubeconfig, namespace, "first")
    second = None
    try:
        assert _said(first) == "leads"
        first.send_signal(signal.SIGSTOP)
        second = _process(kubernetes.kubeconfig, namespace, "second")
        assert _said(second) == "leads"
        first.send_signal(signal.SIGCONT)
        _, complaint = first.communicate(timeout=300)
        assert first.returncode != 0
        assert "LeadershipLostError" in complaint
        assert _holder(kubernetes, namespace) == "second"
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.communicate()


def test_of_many_that_start_at_once_one_leads(kubernetes, namespace):
    async def story() -> None:
        async with KubeClient(await configuration(str(kubernetes.kubeconfig))) as client:
            # Nobody loses it by a machine that stands still for a while.
            patient = Terms(duration_s=60.0, renew_deadline_s=40.0, retry_s=0.5)
            many = [Leadership(client, namespace, NAME, candidate("me"), terms=patient) for _ in range(6)]
            tasks = [asyncio.create_task(each.acquire()) for each in many]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(1)
            leading = [each for each in many if each.holds()]
            assert len(leading) == 1
            for task in tasks:
                task.cancel()
            await leading[0].release()
            other = next(each for each in many if each is not leading[0])
            await asyncio.wait_for(other.acquire(), 60)
            await other.release()

    asyncio.run(story())


def test_who_loses_the_lease_to_another_hand_stops(kubernetes, namespace):
    async def story() -> None:
        async with KubeClient(await configuration(str(kubernetes.kubeconfig))) as client:
            leadership = Leadership(client, namespace, NAME, "me", terms=TERMS)
            began = asyncio.Event()

            async def work() -> None:
                began.set()
                await asyncio.Event().wait()

            leading = asyncio.create_task(leadership.lead(work))
            await began.wait()
            await client.patch("Lease", namespace, NAME, {"spec": {"holderIdentity": "another"}})
            with pytest.raises(LeadershipLostError) as lost:
                await leading
            assert isinstance(lost.value, HeadraceError)
            assert _holder(kubernetes, namespace) == "another"

    asyncio.run(story())
