"""A cluster in the mind: the state machine with a clock, for the tests of membership."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.membership import (
    Event,
    Heartbeat,
    MemberFacts,
    Membership,
    Notice,
    Outcome,
    Policy,
    Reply,
    Ticked,
    View,
    WorkerState,
    fresh,
    step,
)


def beat(
    name: str = "node-1",
    *,
    incarnation: int = 1,
    known_epoch: int = 0,
    joined_epoch: int = 0,
    known_members: int = 0,
    draining: bool = False,
    **facts: object,
) -> Heartbeat:
    """A heartbeat of `name`, whose process serves 1 TB and has some of it cached."""
    given = {"address": f"{name}:7070", "node": name, "capacity_bytes": 10**12, "cached_bytes": 5, **facts}
    return Heartbeat(
        facts=MemberFacts(id=name, **given),
        incarnation=incarnation,
        known_epoch=known_epoch,
        joined_epoch=joined_epoch,
        known_members=known_members,
        draining=draining,
    )


@dataclass
class Cluster:
    """The machine, what it said, and the time."""

    state: Membership
    now_s: float = 1000.0
    notices: list[Notice] = field(default_factory=list)
    views: list[View] = field(default_factory=list)

    @classmethod
    def start(cls, *names: str, **policy: object) -> Cluster:
        """A new cluster of these workers, all of them listed."""
        cluster = cls(fresh(Policy(**policy), 1000.0))
        for name in names:
            cluster.do(beat(name))
        cluster.wait(cluster.state.policy.view_interval_s)
        return cluster

    def do(self, event: Event) -> Outcome:
        """One step, now. Checks what must hold after every step."""
        before = self.state
        outcome = step(self.state, event, self.now_s)
        self.state = outcome.state
        self.notices += outcome.notices
        assert self.state.epoch >= before.epoch
        if outcome.view is not None:
            assert outcome.save and outcome.view.epoch == self.state.epoch > before.epoch
            assert all(0 < member.joined_epoch <= outcome.view.epoch for member in outcome.view.members)
            self.views.append(outcome.view)
        return outcome

    def hear(self, heartbeat: Heartbeat) -> Reply:
        """The answer to a heartbeat."""
        reply = self.do(heartbeat).reply
        assert reply is not None
        return reply

    def wait(self, seconds: float, *alive: str, every_s: float = 1.0) -> None:
        """Time passes, with a tick and a heartbeat of those `alive` each second."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s = min(self.now_s + every_s, end_s)
            for name in alive:
                known = self.state.workers[name]
                self.do(Heartbeat(facts=known.facts, incarnation=known.incarnation))
            self.do(Ticked())

    def state_of(self, name: str) -> WorkerState:
        return self.state.workers[name].state

    @property
    def listed(self) -> list[str]:
        """Ids of the last view that was published."""
        return [member.id for member in self.views[-1].members]

    def member(self, name: str):
        return next(member for member in self.views[-1].members if member.id == name)

    def said(self) -> str:
        return "\n".join(notice.text for notice in self.notices)
