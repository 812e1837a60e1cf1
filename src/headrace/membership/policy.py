"""How patient a master is, and how often it wants to hear from its workers."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from headrace.settings.model import Model


class Policy(Model):
    """Times in seconds."""

    replicas: int = Field(default=1, ge=1, lt=1 << 32)
    """How many workers own each stripe."""
    suspect_s: float = Field(default=5.0, gt=0)
    """Silence after which people are told; the worker stays in the view, as readers get around it by themselves."""
    dead_s: float = Field(default=15.0, gt=0)
    """Silence after which a worker is taken out of the view, and others own what it had."""
    doubt_s: float = Field(default=60.0, ge=0)
    """How much longer more than half of the workers must be silent: it may be the master that is cut off."""
    grace_s: float = Field(default=30.0, ge=0)
    """How long after a restart of the master no worker counts as silent."""
    forget_s: float = Field(default=3600.0, gt=0)
    """How long people still see a worker that is gone."""
    view_interval_s: float = Field(default=1.0, ge=0)
    """At most one view in this time: what happens meanwhile is in the next one."""
    heartbeat_s: float = Field(default=1.0, gt=0)
    """The shortest time between two heartbeats of a worker."""
    heartbeats_per_s: float = Field(default=500.0, gt=0)
    """How many heartbeats the master wants to get in all: more workers are heard less often each."""
    hold_s: float = Field(default=2.0, ge=0)
    """A worker that starts anew again and again is listed after this time, doubled each time,"""
    most_hold_s: float = Field(default=60.0, ge=0)
    """up to this one,"""
    calm_s: float = Field(default=600.0, gt=0)
    """until it has stayed for this long."""

    @model_validator(mode="after")
    def _patience_is_in_order(self) -> Self:
        if self.dead_s <= self.suspect_s:
            raise ValueError(f"dead_s ({self.dead_s:g}) is not above suspect_s ({self.suspect_s:g})")
        if self.suspect_s <= self.heartbeat_s:
            raise ValueError(
                f"suspect_s ({self.suspect_s:g}) is not above heartbeat_s ({self.heartbeat_s:g})"
            )
        return self

    def interval_s(self, workers: int) -> float:
        """The time between two heartbeats of one worker that a master of so many workers asks for."""
        return max(self.heartbeat_s, workers / self.heartbeats_per_s)

    def suspect_after_s(self, asked_s: float) -> float:
        """The silence that is odd in a worker who was asked for a heartbeat every `asked_s`: one was lost."""
        return max(self.suspect_s, 2.5 * asked_s)

    def dead_after_s(self, asked_s: float) -> float:
        """The silence that ends its membership: several were lost."""
        return max(self.dead_s, 4.5 * asked_s)
