"""`headrace patch`: changes single fields of objects."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli import backend
from headrace.errors import ConfigError
from headrace.local.protocol.messages import Named, Patch
from headrace.settings.yaml_streams import read_stream


def run(
    resources: backend.Resources = None,
    patch: Annotated[
        str,
        typer.Option(
            "--patch", "-p", metavar="JSON", help="The fields as they shall be; null takes one away."
        ),
    ] = "",
    form: Annotated[
        str, typer.Option("--type", metavar="merge", help="Type of the patch: read as a JSON merge patch.")
    ] = "merge",
    namespace: backend.Namespace = None,
) -> None:
    """Change single fields of declared objects."""
    if form != "merge":
        raise ConfigError.of(f"a patch of type '{form[:32]}' is not known", hint="--type merge")
    change = _read(patch)
    client, outcomes = backend.client(), []
    for asked in backend.asked_for(resources, command="patch -p '{\"spec\": …}'"):
        if not asked.names:
            raise ConfigError.of("which object?", hint="headrace patch dataset imagenet -p '{\"spec\": …}'")
        where = (namespace or backend.DEFAULT_NAMESPACE) if asked.kinds[0].namespaced else ""
        for name in asked.names:
            named = Named(kind=asked.kinds[0].name, namespace=where, name=name)
            outcomes.append(client.patch(Patch(object=named, patch=change)))
    backend.tell(outcomes)


def _read(text: str) -> dict[str, Any]:
    """JSON, or YAML, of which JSON is a part."""
    documents = read_stream(text, "the patch")
    content = documents[0].content if len(documents) == 1 else None
    if not isinstance(content, dict) or documents[0].faults:
        raise ConfigError.of(
            "the patch is not a map of fields", hint='write it like {"spec": {"replicas": 4}}'
        )
    return content
