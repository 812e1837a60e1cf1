"""How far a copy is, in a file that whoever started it may read at any moment: the last word before a kill, too."""

from __future__ import annotations

import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, ValidationError

from headrace.settings.model import Model
from headrace.trusted_folders import make_folder

if TYPE_CHECKING:
    from headrace.engine.status import JobReport

FORMAT = 1
_WINDOW_S = 20.0
# What Kubernetes keeps of a container's last word; what is longer is cut off there, and no JSON any more.
_LAST_WORD_BYTES = 4096
_TOLD_ERRORS = 3
_TOLD_LETTERS = 400


# The pod that tells it may be another's.
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Amount = Annotated[float, Field(ge=0, lt=2**63, allow_inf_nan=False)]


class CopyProgress(Model):
    """The content of the file: docs/format/copy-progress.md."""

    format: int = FORMAT
    state: str = Field(default="running", pattern="^(running|done|failed|cancelled)$")
    started_at: datetime
    ended_at: datetime | None = None
    done_bytes: _Count = 0
    total_bytes: _Count = 0
    done_files: _Count = 0
    total_files: _Count = 0
    written_bytes: _Count = 0
    bytes_per_second: _Amount = 0.0
    left_s: _Amount | None = None
    faults: _Count = 0
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
        # Less may be done than before: of a file that is copied once more, nothing is.
        rate = max((done_bytes - before) / (now_s - since_s), 0.0) if now_s > since_s else 0.0
        return rate, ((total_bytes - done_bytes) / rate if rate > 0 else None)


class ProgressFile:
    """Tells a report to whoever looks."""

    def __init__(self, path: Path | None, last_word: Path | None = None) -> None:
        self._path, self._last_word = path, last_word
        self._started_at = datetime.now(UTC).replace(microsecond=0)
        self._pace = Pace()
        self._latest = ""

    @property
    def numbers(self) -> str:
        """The last report, as JSON without any sentence in it; empty before."""
        return self._latest

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
                faults=len(report.errors),
                errors=tuple(str(error) for error in report.errors),
                message=report.message,
            )
        )

    def fail(self, message: str) -> None:
        """It could not begin."""
        now = datetime.now(UTC).replace(microsecond=0)
        self._write(CopyProgress(state="failed", started_at=self._started_at, ended_at=now, message=message))

    def _write(self, progress: CopyProgress) -> None:
        self._latest = progress.model_copy(update={"errors": (), "message": ""}).model_dump_json()
        if self._last_word is not None and progress.state != "running":
            # In place: in a container it is a file that is mounted, which cannot be renamed over.
            self._last_word.write_text(last_word(progress))
        if self._path is None:
            return
        make_folder(self._path.parent)
        draft = self._path.with_name(f".{self._path.name}.draft")
        draft.write_text(progress.model_dump_json())
        draft.chmod(0o600)
        draft.replace(self._path)


def last_word(progress: CopyProgress) -> str:
    """The same with as few sentences as fit into what Kubernetes keeps of a container's end."""
    short = progress.model_copy(
        update={
            "errors": tuple(error[:_TOLD_LETTERS] for error in progress.errors[:_TOLD_ERRORS]),
            "message": progress.message[:_TOLD_LETTERS],
        }
    )
    text = short.model_dump_json()
    if len(text.encode()) > _LAST_WORD_BYTES:
        text = short.model_copy(update={"errors": ()}).model_dump_json()
    return text


def parse_progress(text: str) -> CopyProgress | None:
    """The progress in such a file; `None` for anything else."""
    try:
        return CopyProgress.model_validate_json(text)
    except ValidationError:
        return None


def read_progress(path: Path) -> CopyProgress | None:
    """The last report; `None` when there was none, or the file is not one of these."""
    try:
        return CopyProgress.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
