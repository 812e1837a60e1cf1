"""`headrace edit`: a declared object in a person's own editor; what was changed there is declared."""

from __future__ import annotations

import copy
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import typer

from headrace.api.manifests import InvalidObjectsError, read_objects
from headrace.cli import backend, printer
from headrace.errors import ConfigError, MissingFileError
from headrace.exits import ExitCode
from headrace.local.protocol.messages import Named, Patch
from headrace.merge_patch import difference
from headrace.settings.environment import Environment
from headrace.settings.yaml_streams import read_stream, write_stream

Document = dict[str, Any]
_NOT_OURS = ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "finalizers")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def run(resources: backend.Resources = None, namespace: backend.Namespace = None) -> None:
    """Change a declared object in $KUBE_EDITOR, $EDITOR or vi."""
    client = backend.client()
    named = _named(resources, namespace)
    found = client.objects([named.kind], namespace=named.namespace or None, names=[named.name]).items
    before = _editable(found[0])
    after = _edited(before)
    if after is None or after == before:
        printer.say("nothing was changed")
        return
    if (
        any(after.get(field) != before[field] for field in ("apiVersion", "kind"))
        or _name(after) != named.name
    ):
        raise ConfigError.of(
            "an object keeps its kind and its name", hint="make another one with headrace apply"
        )
    outcome = client.patch(Patch(object=named, patch=difference(before, after)))
    backend.tell([outcome.model_copy(update={"deed": "edited"})])


def _named(words: list[str] | None, namespace: str | None) -> Named:
    asked = backend.asked_for(words, command="edit")
    if len(asked) != 1 or len(asked[0].kinds) != 1 or len(asked[0].names) != 1:
        raise ConfigError.of("one object is edited at a time", hint="headrace edit dataset imagenet")
    kind = asked[0].kinds[0]
    if kind.name == "Secret":
        raise ConfigError.of(
            "values of Secrets are not shown, so they cannot be edited", hint="headrace apply -f FILE"
        )
    where = (namespace or backend.DEFAULT_NAMESPACE) if kind.namespaced else ""
    return Named(kind=kind.name, namespace=where, name=asked[0].names[0])


def _editable(document: Document) -> Document:
    """What a person may want to change."""
    shown = copy.deepcopy(document)
    shown.pop("status", None)
    metadata = shown["metadata"]
    for field in _NOT_OURS:
        metadata.pop(field, None)
    metadata.get("annotations", {}).pop(_LAST_APPLIED, None)
    if not metadata.get("annotations", True):
        del metadata["annotations"]
    return shown


def _edited(document: Document) -> Document | None:
    """What the person made of it; `None` for nothing at all. A faulty one stays where it can be repaired."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="headrace-", suffix=".yaml", encoding="utf-8", delete=False
    ) as file:
        file.write(write_stream([document]))
    path = Path(file.name)
    _open(path)
    text = path.read_text(encoding="utf-8")
    try:
        read = read_objects(text, str(path)) if text.strip() else []
    except InvalidObjectsError as error:
        for fault in error.faults:
            printer.say(f"error: {fault}")
        printer.say(f"hint: what you wrote is kept; once it is right: headrace apply -f {path}")
        raise typer.Exit(int(ExitCode.CONFIG)) from None
    path.unlink()
    if not read:
        return None
    if len(read) > 1:
        raise ConfigError.of("there is more than one object now", hint="make others with headrace apply")
    content = read_stream(text, str(path))[0].content
    return content if isinstance(content, dict) else None


def _open(path: Path) -> None:
    editor = shlex.split(Environment.current().editor)
    try:
        done = subprocess.run([*editor, str(path)], check=False)
    except OSError as error:
        path.unlink()
        raise MissingFileError.of(
            f"{editor[0]} cannot be started: {error.strerror}", hint="set EDITOR"
        ) from None
    if done.returncode != 0:
        path.unlink()
        raise ConfigError.of(f"{editor[0]} ended with {done.returncode}, so nothing is changed")


def _name(document: Document) -> Any:
    metadata = document.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None
