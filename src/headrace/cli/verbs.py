"""The verbs of the command `headrace`: where each is, and its line in the help, told without loading them all."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """A function in a module below `headrace.cli`, and the first line of its docstring."""

    module: str
    function: str
    summary: str
    alone: str | None = None
    """`MODULE.FUNCTION` below `headrace.cli` that does the same where no word follows: there are no options to read,
    and the reader of options takes longer to load than the whole command may.
    """


VERBS: dict[str, Verb] = {
    "mount": Verb("mount", "run", "Mount a bucket or folder, cached on this machine or by a cluster."),
    "unmount": Verb("unmount", "run", "End a mount; the cache stays."),
    "restart": Verb(
        "restart",
        "run",
        "Replace the program of a mount by what is installed now; programs keep their files open and only wait.",
    ),
    "warm": Verb(
        "warm",
        "run",
        "Bring data into the cache before it is asked for; complete means that every byte is in.",
    ),
    "evict": Verb("evict", "run", "Drop files or folders from the cache; the data stays where it lives."),
    "sync": Verb("sync", "run", "Put what was written to a mount, and is not in the origin yet, there."),
    "refresh": Verb(
        "refresh",
        "run",
        "Take a new snapshot of the origin's names; readers move on between opens.",
    ),
    "verify": Verb(
        "warm",
        "verify",
        "Compare what the cache holds with its checksums; what does not match is dropped.",
    ),
    "prune": Verb(
        "prune",
        "run",
        "Remove the states of mounts that are gone: lists of files and logs. Caches and data stay.",
    ),
    "ls": Verb("ls", "run", "List files and folders of a dataset."),
    "status": Verb(
        "status",
        "run",
        "Show the mounts of this machine and the local backend, or a cluster: cached share, hits, nodes, loads.",
        alone="mount_status.show",
    ),
    "metrics": Verb("metrics", "run", "Show the metrics of a mount in the format that Prometheus reads."),
    "master": Verb("master", "run", "Run the master of a cluster: members, snapshots, loads, status page."),
    "worker": Verb(
        "worker",
        "run",
        "Run a worker of a cluster: its cache folders serve mounts and other workers.",
    ),
    "token": Verb(
        "token",
        "run",
        "Print the token that a mount or a worker needs: it allows less than the one that it is made of.",
    ),
    "load": Verb(
        "load",
        "run",
        "Bring data into the caches of a cluster; the same load again goes on where it was.",
    ),
    "drain": Verb("drain", "run", "Have a worker hand its blocks over to the others and end."),
    "copy": Verb(
        "copy",
        "run",
        "Copy files to a bucket or folder, comparing each; the same copy again goes on where it was.",
    ),
    "up": Verb(
        "up",
        "run",
        "Start the local backend: virtual nodes on this machine, for datasets that are applied to it.",
    ),
    "down": Verb("up", "down", "End the local backend, with all that runs in it and all that it made."),
    "apply": Verb(
        "apply",
        "run",
        "Declare the objects of files: make those that are not there, change those that differ.",
    ),
    "create": Verb(
        "apply",
        "create",
        "Make the objects of files, or a Secret or ConfigMap of words; one that is there already is an error.",
    ),
    "get": Verb(
        "get",
        "run",
        "Show declared objects: datasets, runtimes, loads, volumes, Secrets, all; also events, nodes and pods.",
    ),
    "describe": Verb(
        "describe",
        "run",
        "Show everything about declared objects, with their events; or about nodes.",
    ),
    "delete": Verb("delete", "run", "Delete declared objects, and what runs for them."),
    "wait": Verb("wait", "run", "Wait until declared objects meet a condition."),
    "scale": Verb("scale", "run", "Scale runtimes out and in."),
    "patch": Verb("patch", "run", "Change single fields of declared objects."),
    "edit": Verb("edit", "run", "Change a declared object in $KUBE_EDITOR, $EDITOR or vi."),
    "label": Verb("label", "run", "Give objects or nodes labels: KEY=VALUE; or take them away: KEY-."),
    "annotate": Verb(
        "label",
        "annotate",
        "Give objects or nodes annotations: KEY=VALUE; or take them away: KEY-.",
    ),
    "taint": Verb(
        "label",
        "taint",
        "Keep off nodes what does not tolerate it: KEY[=VALUE]:EFFECT; or no more: KEY[:EFFECT]-.",
    ),
    "events": Verb("events", "run", "Show what happened to declared objects, the latest last."),
    "logs": Verb(
        "logs",
        "run",
        "Show the logs of a dataset's master, workers and mounts, or of an operation's process.",
    ),
    "run": Verb("run", "run", "Run a program on a virtual node, with the files of datasets."),
    "job": Verb("arena.job", "run", "Training jobs: everything that `arena` does, with these exit codes."),
    "operator": Verb(
        "operator",
        "run",
        "Run the operator: it brings datasets of a Kubernetes cluster in line with their declarations.",
    ),
    "sweep": Verb(
        "sweep",
        "run",
        "Remove what a dataset left on this node: mount, states, caches. The operator calls it.",
    ),
    "own-folders": Verb(
        "own_folders",
        "run",
        "Give a user the folders of this node that a dataset's worker needs. The operator has it called.",
    ),
    "backup": Verb(
        "backup",
        "run",
        "Keep the list of files of a dataset in a folder. The operator calls it for a DataBackup.",
    ),
    "restore": Verb(
        "backup",
        "restore",
        "Put a kept list of files where a master that begins looks for its own. The operator calls it.",
    ),
    "webhook": Verb(
        "webhook",
        "run",
        "Run the admission webhook: pods prefer nodes with their data, and authors learn at once what is refused.",
    ),
    "jobkeeper": Verb(
        "jobkeeper",
        "run",
        "Run the keeper of training jobs: it starts them when their data is warm, keeps their logs, frees volumes.",
    ),
    "csi": Verb(
        "csi",
        "run",
        "Run the CSI driver of a node: it shows datasets to pods, and keeps their mounts over the end of a pod.",
    ),
    "doctor": Verb(
        "doctor",
        "run",
        "Check this machine, a storage or a cluster: each fault is named with its remedy.",
    ),
    "support-bundle": Verb(
        "support_bundle",
        "run",
        "Write what helps to find a fault into one file, without credentials: status, logs, settings, findings.",
    ),
    "completion": Verb(
        "completion.shells",
        "run",
        "Print a script by which a shell completes words: source <(headrace completion bash).",
    ),
    "version": Verb(
        "version",
        "run",
        "Show the version of Headrace, the commit that it was built from, and the version of its engine.",
        alone="version.run",
    ),
}
"""In the order of the help."""
