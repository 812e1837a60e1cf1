"""`headrace worker --config FILE` and the same of a master or a mount: the role begins in the process that was called.

Where an option holds a credential, the command becomes another process, whose words hold none
(`headrace.roles.launching.launch`). A file gives none away, so nothing has to go; and neither options nor a second
Python are loaded, which is half of the time that a role needs until it serves.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headrace.cli.role_settings import settings_of_role
from headrace.cli.terminal import terminal
from headrace.roles.launching.launch import serve_role
from headrace.settings.environment import Environment
from headrace.settings.roles import MasterSettings, MemberSettings, RoleSettings, WorkerSettings

_SETTINGS: Mapping[str, type[RoleSettings]] = MappingProxyType(
    {"master": MasterSettings, "worker": WorkerSettings}
)
_LABELS: Mapping[str, Callable[[Any], str]] = MappingProxyType(
    {"master": lambda spec: spec.settings.cluster, "worker": lambda spec: spec.id}
)
"""What process listings call a process that shows no credential."""


def begin_role(role: str, file: Path) -> int:
    """Serves until the role ends; its exit code. Raises what keeps it from beginning."""
    environment = Environment.current()
    settings = settings_of_role(_SETTINGS[role], file, environment)
    # Of the roles only the one that was said is loaded.
    spec_of: Callable[..., Any] = getattr(
        importlib.import_module(f"headrace.roles.specs.{role}_spec"), f"{role}_spec"
    )
    spec = spec_of(settings, environment, terminal())
    return serve_role(role, _LABELS[role](spec), spec, environment, sys.argv)


def begin_mount(file: Path) -> int:
    """Serves in the foreground until the mount ends, in a copy of this process; its exit code.

    This process becomes the supervisor. Raises what keeps the mount from beginning.
    """
    environment = Environment.current()
    settings = settings_of_role(MemberSettings, file, environment)
    spec_of: Callable[..., Any] = importlib.import_module("headrace.roles.specs.member_spec").member_spec
    spec = spec_of(settings, environment, terminal(), foreground=True)
    # Here, since neither a master nor a worker has a pair of processes.
    from headrace.roles.launching.process_pair import serve_mount  # noqa: PLC0415

    return serve_mount(spec, environment)
