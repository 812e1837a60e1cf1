"""The outlook by which a member of a cluster starts: the master's, or the last one known when the master is away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from headrace.control.client import ControlClient
from headrace.control.fetching import fetch_snapshot, has_snapshot
from headrace.control.messages import Outlook
from headrace.control.outlooks import last_outlook, save_outlook
from headrace.engine.cluster import continue_snapshot
from headrace.errors import BusyError, DeadlineError, HeadraceError, MissingFileError, OriginUnreachableError
from headrace.trusted_folders import make_folder

POLL_S = 30.0
"""The time for which the master may hold back its answer to a member that waits for a change."""
_PATIENCE_S = 60.0
_POLL_EVERY_S = 1.0

Tell = Callable[[str], None]


async def first_outlook(
    master: str, token: SecretStr, folder: Path, tell: Tell, *, authority: Path | None = None
) -> Outlook:
    """The first outlook of a mount, with its snapshot in the folder: the master's, or the last one known if it is away
    or has none yet, as one that has lost its state and cannot list, or if the folder takes no newer one.

    A mount that knows nothing waits a while for a master that has no snapshot yet; `tell` hears of it.
    """
    make_folder(folder)
    kept = _kept(folder)
    async with ControlClient(master, token, authority=authority) as client:
        try:
            return await _fetched(client, folder, tell, patience_s=_PATIENCE_S if kept is None else 0.0)
        except OSError as error:
            if kept is None or not _may_pass(error):
                raise
            why = error.message if isinstance(error, HeadraceError) else f"{folder}: {error.strerror}"
            tell(f"{why}; going by what was known last")
            return kept


def _may_pass(error: OSError) -> bool:
    """True where the master is away or has nothing yet, and where the folder takes nothing at present."""
    is_ours = isinstance(error, HeadraceError)
    return not is_ours or isinstance(error, OriginUnreachableError | DeadlineError | BusyError)


def _kept(folder: Path) -> Outlook | None:
    """The last outlook, if its snapshot is here as well."""
    kept = last_outlook(folder)
    return kept if kept is not None and kept.snapshot and has_snapshot(folder, kept.snapshot) else None


async def _fetched(client: ControlClient, folder: Path, tell: Tell, *, patience_s: float) -> Outlook:
    deadline_s = asyncio.get_running_loop().time() + patience_s
    told = False
    while True:
        outlook = await client.outlook_after(last_outlook(folder))
        if outlook.snapshot is not None and outlook.dataset.origins:
            with contextlib.suppress(MissingFileError):  # a newer one took its place meanwhile
                await fetch_snapshot(client, outlook.snapshot, folder, continue_snapshot)
                save_outlook(folder, outlook)
                return outlook
        elif asyncio.get_running_loop().time() >= deadline_s:
            raise BusyError.of(
                "the master has no snapshot yet", hint="`headrace status --cluster URL` says how it does"
            )
        elif not told:
            told = True
            tell("the master has no snapshot yet; waiting for it")
        await asyncio.sleep(_POLL_EVERY_S)
