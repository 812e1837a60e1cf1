"""The flags that several commands on jobs share."""

from __future__ import annotations

from headrace.cli.arena.flags import Flag, flag

NAMESPACE = flag("--namespace -n", str, "The namespace.", metavar="NAME")
ALL_NAMESPACES = flag("--all-namespaces -A", bool, "Of all namespaces.")
BACKEND = flag(
    "--backend",
    str,
    "Backend for jobs: local or kubernetes. Without it local if the local backend is up, else the cluster of the "
    "kubeconfig.",
    metavar="NAME",
)
CONFIG = flag("--config", str, "A kubeconfig: jobs of that cluster.", metavar="FILE")
TYPE = flag(
    "--type -T", str, "The kind of job: mpijob (mpi), pytorchjob (pytorch), tfjob (tf).", metavar="KIND"
)
OUTPUT = flag("--output -o", str, "wide, json or yaml.", metavar="FORMAT")
REVEAL = flag("--reveal-secrets", bool, "Print the values of Secrets, instead of stars.")

WHERE: tuple[Flag, ...] = (NAMESPACE, BACKEND, CONFIG)
"""Where a command looks."""

IGNORED: dict[str, bool] = {
    "--loglevel": True,
    "--arena-namespace": True,
    "--trace": False,
    "--pprof": False,
    "--helm-binary": False,
}
"""Arena's flags that are accepted everywhere and have no meaning here; True for those with a value."""
