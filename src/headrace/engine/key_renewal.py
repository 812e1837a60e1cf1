"""Keys that change while engines of this process use them: watched, read again, and handed on.

A file is looked at every few seconds, and read when it looks changed; keys with an end are got anew before it; and when
the storage refuses keys, they are read again at once, while the refused request waits. A thread does all that: engines
only tell it, by a descriptor, that keys are wanted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from headrace.engine import native
from headrace.engine.key_sources import Stamp, credentials, read_again, stamp
from headrace.engine.profiles import Profiles
from headrace.engine.temporary_keys import renewal_time
from headrace.errors import HeadraceError
from headrace.settings.engine import EngineConfig, plain_json
from headrace.settings.environment import Environment
from headrace.settings.key_sources import KeySource
from headrace.settings.origins import Origin

_log = logging.getLogger("headrace.keys")

PERIOD_S = 5.0
"""How often files are looked at."""
# Keys that end soon after they were given are not asked for all the time.
_PAUSE_S = 30.0


class KeyRenewal:
    """Renews the keys of `origins` from `sources`, from `start` to `close`. Without sources it does nothing."""

    def __init__(self, sources: Sequence[KeySource], origins: Sequence[Origin]) -> None:
        environment = Environment.current()
        by_name = {name: origin for origin in origins if (name := getattr(origin, "renewal", None))}
        self._watched = [_Watched(source, by_name, environment) for source in sources]
        self._names = [name for each in self._watched for name in each.names]
        self._demands, self._told, self._tell = -1, -1, -1
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Begins; from here on a request whose keys were refused waits for others."""
        if self._watched and self._thread is None:
            self._demands = native.load().watch_key_demands(self._names)
            self._told, self._tell = os.pipe()
            self._thread = threading.Thread(target=self._run, name="keys", daemon=True)
            self._thread.start()
        return self

    def close(self) -> None:
        """Ends it."""
        if self._thread is None:
            return
        os.close(self._tell)
        self._thread.join()
        os.close(self._told)
        os.close(self._demands)
        self._thread = None
        for name in self._names:
            native.load().forget_keys(name)

    def current(self, config: EngineConfig) -> EngineConfig:
        """The configuration with the keys as they are now: for a process that takes the place of another."""
        renewed = {name: origin for each in self._watched for name, origin in each.read().items()}
        mounts = (
            mount.model_copy(
                update={"origin": renewed.get(str(getattr(mount.origin, "renewal", "")), mount.origin)}
            )
            for mount in config.origins
        )
        return config.model_copy(update={"origins": tuple(mounts)})

    def _run(self) -> None:
        while True:
            ready, _, _ = select.select([self._demands, self._told], [], [], PERIOD_S)
            if self._told in ready:
                return
            if ready:
                os.read(self._demands, 8)
            wanted = set(native.load().key_demands(self._names))
            for each in self._watched:
                each.look(wanted)


@contextlib.contextmanager
def renewed_while_opening(
    keys: Sequence[KeySource], config: EngineConfig, *others: Origin
) -> Iterator[KeyRenewal]:
    """A renewal that has begun, and goes on after the block; it is ended when the block fails."""
    renewal = KeyRenewal(keys, [*(mount.origin for mount in config.origins), *others]).start()
    try:
        yield renewal
    except BaseException:
        renewal.close()
        raise


class _Watched:
    """One source, what it looked like, and what it held."""

    def __init__(self, source: KeySource, origins: dict[str, Origin], environment: Environment) -> None:
        self._source, self._environment, self._profiles = source, environment, Profiles()
        self._origins = {name: origins[name] for name in source.names if name in origins}
        # What changed between the reading of the keys and now is noticed at the first look.
        self._stamp: Stamp | None = None
        self._due_s = _due(source.expires_at_s)
        self._complaint = ""

    @property
    def names(self) -> set[str]:
        return set(self._origins)

    def look(self, wanted: set[str]) -> None:
        """Reads the keys again if they are wanted, or may have changed; answers for those that are wanted."""
        now = stamp(self._source, self._environment)
        is_wanted = not wanted.isdisjoint(self.names)
        if not is_wanted and now == self._stamp and time.time() < self._due_s:
            return
        # Noted before it is read: what changes meanwhile is seen the next time.
        self._stamp = now
        if is_wanted or time.time() >= self._due_s:
            self._profiles.forget()
        renewed = self.read()
        for name, origin in renewed.items():
            native.load().renew_keys(name, plain_json(origin))
            _log.info("%s: its keys have changed, and the new ones are used", origin.label)
        for name in wanted & self.names - renewed.keys():
            native.load().decline_keys(name)

    def read(self) -> dict[str, Origin]:
        """The origins whose keys are others than they were."""
        try:
            found = read_again(self._source, self._environment, self._profiles)
        except HeadraceError as error:
            self._complain(f"{error.message}; {error.hint}" if error.hint else error.message)
            self._due_s = time.time() + _PAUSE_S if self._due_s <= time.time() else self._due_s
            return {}
        self._complaint = ""
        self._due_s = max(_due(self._profiles.expires_at_s), time.time() + _PAUSE_S)
        renewed = {
            name: self._origins[name].model_copy(update=keys)
            for name, keys in found.items()
            if name in self._origins and _has_changed(self._origins[name], keys)
        }
        self._origins |= renewed
        return renewed

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._complaint = text
            _log.warning("keys cannot be read again, and those of before stay in use: %s", text)


def _due(expires_at_s: float | None) -> float:
    return float("inf") if expires_at_s is None else renewal_time(expires_at_s)


def _has_changed(origin: Origin, keys: Mapping[str, object]) -> bool:
    # Half-written files, and files that were emptied, give none: what is there is better.
    return any(keys.values()) and dict(keys) != credentials(origin)
