"""Answers the questions of API servers: in time, and with "allowed" whatever goes wrong here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from headrace.plan.policy import Policy
from headrace.plan.sharing import not_shared
from headrace.webhook.declared_objects import Judgement, is_unchanged, judge
from headrace.webhook.metrics import Result, Tally
from headrace.webhook.node_preference import Decision, Homes, claims_of, decide
from headrace.webhook.reviews import Question, allowed, judged

_log = logging.getLogger("headrace.webhook")

DEADLINE_S = 1.5


class Knowledge(Protocol):
    """The homes of datasets."""

    async def homes(self, namespace: str, claims: Iterable[str]) -> Homes:
        """The claims of datasets among these, with their nodes."""

    def leaving(self, namespace: str, claims: Iterable[str]) -> Sequence[str]:
        """Those of them that are being deleted."""

    async def is_shared(self, dataset: str, namespace: str) -> bool:
        """True when the owner of the dataset `namespace/name` lets a namespace read it."""


async def answer(
    question: Question,
    knowledge: Knowledge,
    tally: Tally,
    deadline_s: float = DEADLINE_S,
    policy: Policy | None = None,
) -> dict[str, Any]:
    """The answer to a question; without a patch when none is wanted, or none can be told in time."""
    if question.declared is not None:
        return await _answer_declared(question, knowledge, tally, deadline_s, policy)
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


async def _answer_declared(
    question: Question, knowledge: Knowledge, tally: Tally, deadline_s: float, policy: Policy | None
) -> dict[str, Any]:
    began_s = time.monotonic()
    judgement, result = Judgement(), Result.UNCHANGED
    try:
        async with asyncio.timeout(deadline_s):
            judgement = await _judged(question, knowledge, policy)
    except TimeoutError:
        result = Result.LATE
        _log.warning("%s: taken as it is, since nothing was known in time", question.title)
    except Exception:  # a fault of ours must not keep anybody from declaring anything
        result = Result.FAILED
        _log.exception("%s: taken as it is, since something is wrong here", question.title)
    if judgement.refusal:
        result = Result.REFUSED
        _log.info("%s: refused: %s", question.title, judgement.refusal)
    elif judgement.warnings:
        result = Result.WARNED
    tally.count(result, time.monotonic() - began_s, is_unmet=False)
    return judged(question.uid, judgement)


async def _judged(question: Question, knowledge: Knowledge, policy: Policy | None) -> Judgement:
    content = question.declared
    if content is None or is_unchanged(content, question.before):
        return Judgement()
    judgement = judge(content, policy)
    own = f"{question.namespace}/{content['metadata'].get('name', '*')}"
    for dataset in judgement.references:
        if not await knowledge.is_shared(dataset, question.namespace):
            # In the words of the operator, which are the same for a dataset that does not exist.
            refused = not_shared(own, dataset, None)
            return Judgement(refusal=refused.message if refused else "")
    return judgement
