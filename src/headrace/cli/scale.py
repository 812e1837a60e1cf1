"""`headrace scale`: another number of workers for runtimes."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import backend
from headrace.errors import ConfigError
from headrace.local.protocol.messages import Named, Scaling


def run(
    resources: backend.Resources = None,
    replicas: Annotated[
        int | None, typer.Option(metavar="COUNT", min=0, max=10_000, help="Number of workers to run.")
    ] = None,
    current_replicas: Annotated[
        int | None, typer.Option(metavar="COUNT", min=0, help="Only if there are so many now.")
    ] = None,
    namespace: backend.Namespace = None,
) -> None:
    """Scale runtimes out and in."""
    if replicas is None:
        raise ConfigError.of("how many?", hint="headrace scale --replicas=4 alluxioruntime/imagenet")
    where = namespace or backend.DEFAULT_NAMESPACE
    client, outcomes = backend.client(), []
    for asked in backend.asked_for(resources, command="scale --replicas=4"):
        if not asked.names:
            raise ConfigError.of("which runtime?", hint="headrace scale --replicas=4 alluxioruntime/imagenet")
        for name in asked.names:
            named = Named(kind=asked.kinds[0].name, namespace=where, name=name)
            outcomes.append(client.scale(Scaling(object=named, replicas=replicas, current=current_replicas)))
    backend.tell(outcomes)
