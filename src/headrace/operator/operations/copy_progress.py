"""How far a copy is while it runs: its pod is asked, by its address and without any right. Nobody waits for long."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import aiohttp

from headrace.errors import EngineError
from headrace.foreign_answers import ask_plainly
from headrace.roles.processes.progress import CopyProgress, parse_progress

_ANSWER_S = 3.0
_AGAIN_AFTER_S = 10.0
_LARGEST_BYTES = 16 << 10


@dataclass(slots=True)
class ProgressClient:
    """Asks pods. One that did not answer is left alone for a while: a network policy may keep it apart."""

    port: int
    _silent: dict[str, float] = field(default_factory=dict)

    async def progress(self, address: str) -> CopyProgress | None:
        """The progress of the copy at this address; `None` when it reports nothing."""
        if not address or self._silent.get(address, 0.0) > time.monotonic():
            return None
        try:
            text = await _read(address, self.port)
        except TimeoutError:
            now_s = time.monotonic()
            self._silent = {each: until_s for each, until_s in self._silent.items() if until_s > now_s}
            self._silent[address] = now_s + _AGAIN_AFTER_S
            return None
        except (aiohttp.ClientError, OSError, EngineError):
            # It has only just begun: that costs no time.
            return None
        return parse_progress(text)


async def _read(address: str, port: int) -> str:
    host = f"[{address}]" if ":" in address else address
    url = f"http://{host}:{port}/v1/progress"
    raw = await ask_plainly(url, most_bytes=_LARGEST_BYTES, timeout_s=_ANSWER_S)
    return raw.decode(errors="replace") if raw is not None else ""
