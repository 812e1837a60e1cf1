"""The facts that a worker reports about itself, checked as strictly as its readers will check them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from headrace.membership.view_names import check_address, check_name
from headrace.settings.model import Model

MOST_BYTES = (1 << 63) - 1
Name = Annotated[str, AfterValidator(check_name)]


def _check_socket(path: PurePosixPath | None) -> PurePosixPath | None:
    if path is not None and not path.is_absolute():
        raise ValueError("the lease socket is an absolute path")
    return path


class MemberFacts(Model):
    """One worker in its own words. `id` survives restarts; `node` is the machine it runs on."""

    id: Name
    address: Annotated[str, AfterValidator(check_address)]
    node: Name
    capacity_bytes: int = Field(ge=0, le=MOST_BYTES)
    cached_bytes: int = Field(default=0, ge=0, le=MOST_BYTES)
    lease_socket: Annotated[PurePosixPath | None, AfterValidator(_check_socket)] = None
    ready: bool = True
    """Whether it serves already: a worker that still reads its cache's log is known, but not listed."""
    leaving: bool = False
    """Whether it wishes to end, and is to be drained without anybody asking."""
