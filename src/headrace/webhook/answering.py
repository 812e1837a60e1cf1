"""Answers the questions of API servers: in time, and with "allowed" whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from headrace.webhook.metrics import Result, Tally
from headrace.webhook.node_preference import Decision, Homes, claims_of, decide
from headrace.webhook.reviews import Question, allowed

_log = logging.getLogger("headrace.webhook")

DEADLINE_S = 1.5


class Knowledge(Protocol):
    """The homes of datasets."""

    async def homes(self, namespace: str, claims: Iterable[str]) -> Homes:
        """The claims of datasets among these, with their nodes."""

    def leaving(self, namespace: str, claims: Iterable[str]) -> Sequence[str]:
        """Those of them that are being deleted."""


async def answer(
    question: Question, knowledge: Knowledge, tally: Tally, deadline_s: float = DEADLINE_S
) -> dict[str, Any]:
    """The answer to a question; without a patch when none is wanted, or none can be told in time."""
    began_s = time.monotonic()
    decision, result = Decision(), Result.UNCHANGED
    try:
        async with asyncio.timeout(deadline_s):
            decision = await _decided(question, knowledge)
    except TimeoutError:
        result = Result.LATE
        _log.warning("%s: let in as it is, since nothing was known in time", question.title)
    except Exception:  # a fault of ours must not keep a pod from running
        result = Result.FAILED
        _log.exception("%s: let in as it is, since something is wrong here", question.title)
    if decision.patch:
        result = Result.STEERED
        _log.info("%s: steered to the nodes of its data", question.title)
    tally.count(result, time.monotonic() - began_s, is_unmet=bool(decision.warnings))
    return allowed(question.uid, decision)


async def _decided(question: Question, knowledge: Knowledge) -> Decision:
    if question.pod is None:
        return Decision()
    claims = claims_of(question.pod)
    if not claims:
        return Decision()
    homes = await knowledge.homes(question.namespace, claims)
    leaving = knowledge.leaving(question.namespace, claims)
    return replace(decide(question.pod, homes), notices=tuple(map(_leaving_text, leaving)))


def _leaving_text(claim: str) -> str:
    return f"claim {claim} is being deleted, with its dataset or to be made anew: the pod waits until it is there again"
