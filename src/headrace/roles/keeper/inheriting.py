"""The state of a supervisor's mountpoint when it starts: nothing, a mount to go on with, or one in the way."""

from __future__ import annotations

import os
from dataclasses import dataclass

from headrace.roles.keeper.keeping import Kept
from headrace.roles.keeper.line import Claimed, KeeperLine
from headrace.roles.mountpoint.apart import Health, health_of
from headrace.roles.mountpoint.detaching import detach
from headrace.roles.mountpoint.mount_table import MountEntry, mount_at, place_of


@dataclass(frozen=True)
class Found:
    """`kept`: go on with it, after so many restarts. `wait`: look again, and why. Neither: mount anew."""

    kept: Kept | None = None
    restarts: int = 0
    wait: str | None = None


def find(mountpoint: str, line: KeeperLine) -> Found:
    """The mount that is there. A mount of ours that is dead, or that nobody can go on with, is taken off.

    Touches no mount that is served by somebody.
    """
    place = place_of(mountpoint)
    there = mount_at(place)
    claimed = line.claim(place)
    if claimed.deposit is not None:
        return _judge(claimed, there, line)
    if there is None or not there.is_ours:
        return Found()  # whether something else is in the way, the mount process will say
    if claimed.refused is not None:
        return Found(wait=f"the keeper refuses: {claimed.refused}")
    if health_of(place) is Health.DEAD and detach(place, there.device):
        return Found(wait="a dead mount was in the way")
    return Found(wait="what is mounted there is alive, and the keeper does not hold it (yet)")


def _judge(claimed: Claimed, there: MountEntry | None, line: KeeperLine) -> Found:
    deposit = claimed.deposit
    if deposit is None:
        return Found()
    connection, ledger = claimed.descriptors
    kept = Kept(
        words=deposit.words,
        connection=connection,
        ledger=ledger,
        name=deposit.name,
        mountpoint=deposit.mountpoint,
        device=deposit.device,
        log_file=deposit.log_file,
    )
    same = there is not None and there.is_ours and there.device == deposit.device
    if there is not None and same and deposit.lineage == line.lineage and not kept.is_unmounted():
        return Found(kept=kept.seen_as(there), restarts=deposit.restarts + 1)
    line.withdraw()
    os.close(ledger)
    if same:
        kept.let_go()
    else:
        os.close(connection)
    return Found(wait="clearing what an earlier mount left")
