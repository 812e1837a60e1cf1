"""How far a copy is, in a file that whoever started it may read at any moment: the last word before a kill, too."""

from __future__ import annotations

import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field, ValidationError

from headrace.engine.status import JobReport
from headrace.settings.model import Model

FORMAT = 1
_WINDOW_S = 20.0


class CopyProgress(Model):
    """The content of the file: docs/format/copy-progress.md."""

    format: int = FORMAT
    state: str = Field(default="running", pattern="^(running|done|failed|cancelled)$")
    started_at: datetime
    ended_at: datetime | None = None
    done_bytes: int = 0
    total_bytes: int = 0
    done_files: int = 0
    total_files: int = 0
    written_bytes: int = 0
    bytes_per_second: float = 0.0
    left_s: float | None = None
    errors: tuple[str, ...] = ()
    message: str = ""


class Pace:
    """How fast a copy goes of late."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def of(self, done_bytes: int, total_bytes: int, now_s: float | None = None) -> tuple[float, float | None]:
        """Bytes a second over the last seconds, and how many seconds are left at that rate."""
        now_s = time.monotonic() if now_s is None else now_s
        self._seen.append((now_s, done_bytes))
        while len(self._seen) > 2 and now_s - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()
        since_s, before = self._seen[0]
        rate = (done_bytes - before) / (now_s - since_s) if now_s > since_s else 0.0
        return rate, ((total_bytes - done_bytes) / rate if rate > 0 else None)


class ProgressFile:
    """Tells a report to whoever looks."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._started_at = datetime.now(UTC).replace(microsecond=0)
        self._pace = Pace()

    def tell(self, report: JobReport) -> None:
        """Replaces the file with what the report says."""
        rate, left_s = self._pace.of(report.done_bytes, report.total_bytes)
        ended = report.state != "running"
        self._write(
            CopyProgress(
                state=report.state,
                started_at=self._started_at,
                ended_at=datetime.now(UTC).replace(microsecond=0) if ended else None,
                done_bytes=report.done_bytes,
                total_bytes=report.total_bytes,
                done_files=report.done_files,
                total_files=report.total_files,
                written_bytes=report.origin_bytes,
                bytes_per_second=round(rate, 1),
                left_s=None if left_s is None or ended else round(left_s, 1),
                errors=tuple(str(error) for error in report.errors),
                message=report.message,
            )
        )

    def fail(self, message: str) -> None:
        """It could not begin."""
        now = datetime.now(UTC).replace(microsecond=0)
        self._write(CopyProgress(state="failed", started_at=self._started_at, ended_at=now, message=message))

    def _write(self, progress: CopyProgress) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._path.with_name(f".{self._path.name}.draft")
        draft.write_text(progress.model_dump_json())
        draft.chmod(0o600)
        draft.replace(self._path)


def read_progress(path: Path) -> CopyProgress | None:
    """What was told last; `None` when nothing was, or the file is not one of these."""
    try:
        return CopyProgress.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
