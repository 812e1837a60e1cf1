"""The flags of `arena submit`: those of all kinds of jobs, and of each kind its own."""

from __future__ import annotations

from headrace.cli.arena.flags import Flag, flag
from headrace.cli.arena.shared_flags import BACKEND, REVEAL
from headrace.jobs.spec import JobKind

SHARED: tuple[Flag, ...] = (
    flag("--name", str, "The job's name: up to 49 lower-case letters, digits and '-'.", metavar="NAME"),
    flag("--image", str, "The image of the job's pods. Ignored on one machine.", metavar="IMAGE"),
    flag("--gpus", int, "GPUs of each worker; of MPI also the ranks of each worker."),
    flag("--device", list, "Another extended resource of each worker; again for more.", metavar="NAME=COUNT"),
    flag("--workers", int, "Workers; of PyTorch the master is one of them.", 1),
    flag("--retry", int, "Number of retries of a job that failed."),
    flag("--working-dir", str, "Folder that the command starts in.", "/root", "/PATH"),
    flag("--env -e", list, "A variable of all processes; again for more.", metavar="NAME=VALUE"),
    flag(
        "--data -d",
        list,
        "A dataset or claim, or a folder of it, and where processes see it; again for more.",
        metavar="CLAIM[/FOLDER]:/PATH[:ro]",
    ),
    flag(
        "--data-dir",
        list,
        "A folder of the nodes, and where processes see it; again for more.",
        metavar="/FOLDER[:/PATH]",
    ),
    flag("--annotation -a", list, "Of the job and its pods; again for more.", metavar="KEY=VALUE"),
    flag("--label -l", list, "The same for a label.", metavar="KEY=VALUE"),
    flag("--rdma", bool, "Ask for an RDMA device (rdma/hca)."),
    flag("--gang", bool, "Start all processes or none (Volcano or scheduler-plugins)."),
    flag("--priority -p", str, "A PriorityClass.", metavar="NAME"),
    flag("--queue", str, "A LocalQueue of Kueue, which decides when the job starts.", metavar="NAME"),
    flag(
        "--toleration",
        list,
        "A taint that is tolerated, or `all`; again for more.",
        metavar="KEY[=VALUE][:EFFECT][,OPERATOR]",
    ),
    flag("--selector", list, "A label that nodes must have; again for more.", metavar="KEY=VALUE"),
    flag(
        "--config-file",
        list,
        "A local file that travels with the job, and where processes see it; again for more.",
        metavar="FILE[:/PATH]",
    ),
    flag("--image-pull-secret", list, "A Secret for the registry; again for more.", metavar="NAME"),
    flag("--image-pull-policy", str, "Always, IfNotPresent or Never.", "Always", "POLICY"),
    flag("--shell", str, "Program that runs a command of one word.", "sh", "PROGRAM"),
    flag("--scheduler", str, "The scheduler of the job's pods.", metavar="NAME"),
    flag("--hostNetwork --host-network", bool, "Use the network of the nodes."),
    flag("--hostIPC --host-ipc", bool, "Use the IPC namespace of the nodes."),
    flag("--hostPID --host-pid", bool, "Use the process ids of the nodes."),
    flag("--share-memory --shared-memory", str, "Size of /dev/shm.", "2Gi", "SIZE"),
    flag(
        "--clean-task-policy",
        str,
        "Processes to stop at the end: All, Running, None. Without it All for MPI, Running for the others.",
        metavar="POLICY",
    ),
    flag("--running-timeout", str, "End the job as failed after so long.", metavar="DURATION"),
    flag("--starting-timeout", str, "End it as failed when it waits for so long.", metavar="DURATION"),
    flag("--ttl-after-finished", str, "Delete it so long after its end.", metavar="DURATION"),
    flag("--sync-mode", str, "Fetch code into WORKING-DIR/code first: git or rsync.", metavar="MODE"),
    flag("--sync-source", str, "Address of that code.", metavar="ADDRESS"),
    flag("--sync-image", str, "The image that fetches it.", metavar="IMAGE"),
    flag("--tensorboard", bool, "A TensorBoard beside the job."),
    flag("--tensorboard-image", str, "Its image.", metavar="IMAGE"),
    flag("--logdir", str, "Folder that it reads, below --data or --data-dir.", "/training_logs", "/PATH"),
    flag("--model-name", str, "Ignored: there is no model registry.", metavar="NAME"),
    flag("--model-source", str, "The same.", metavar="ADDRESS"),
    flag(
        "--wait-warm",
        str,
        "Start the processes once so much of each dataset is cached: 80, 100%.",
        metavar="PERCENT",
    ),
    flag("--suspend", bool, "Create the job without starting it: `arena release` starts it."),
    flag("--namespace -n", str, "The namespace.", metavar="NAME"),
    BACKEND,
    flag("--config", str, "A kubeconfig: the job runs on that cluster.", metavar="FILE"),
    flag("--dry-run", bool, "Print the objects, create nothing."),
    flag("--output -o", str, "Format of --dry-run: yaml or json.", "yaml", "FORMAT"),
    REVEAL,
    flag(
        "--wait", bool, "Wait for the job's end, and answer as `arena wait` does. Ctrl-C leaves it running."
    ),
    flag("--timeout", str, "Timeout of --wait.", metavar="DURATION"),
    flag(
        "--skip-checks",
        bool,
        "Create the job even if checks fail, for example when nodes or claims will be added later.",
    ),
)

_SIZES = (
    flag("--cpu", str, "Processors of each worker.", metavar="QUANTITY"),
    flag("--memory", str, "Memory of each worker.", metavar="QUANTITY"),
)
_MPI = (
    *_SIZES,
    flag("--mounts-on-launcher", bool, "The launcher sees the data as well."),
    flag("--gputopology", bool, "Ignored: it belongs to Alibaba's scheduler."),
)
_PYTORCH = (
    *_SIZES,
    flag(
        "--nproc-per-node",
        str,
        "Processes of torchrun on each worker: auto, cpu, gpu, COUNT.",
        metavar="WORD",
    ),
)
_TF_ROLES = ("worker", "ps", "chief", "evaluator")
_TF = (
    flag("--worker-image", str, "The image of workers, if not --image.", metavar="IMAGE"),
    flag("--ps-image", str, "The image of parameter servers, if not --image.", metavar="IMAGE"),
    flag("--ps", int, "Parameter servers."),
    flag("--ps-gpus", int, "GPUs of each parameter server."),
    flag("--chief", bool, "A chief of its own."),
    flag("--evaluator", bool, "An evaluator."),
    *(
        flag(f"--{role}-port", int, f"Port of a {role}; 0 chooses one.", metavar="PORT")
        for role in _TF_ROLES[:3]
    ),
    *(
        flag(f"--{role}-{what}{limit}", str, f"{meaning} of a {role}.", metavar="QUANTITY")
        for role in _TF_ROLES
        for what, limit, meaning in (
            ("cpu", "", "Processors"),
            ("cpu", "-limit", "Processor limit"),
            ("memory", "", "Memory"),
            ("memory", "-limit", "Memory limit"),
        )
    ),
    *(
        flag(f"--{role}-selector", list, f"A label that nodes of a {role} must have.", metavar="KEY=VALUE")
        for role in _TF_ROLES
    ),
    *(
        flag(f"--{role}-affinity-policy", str, "none, spread or binpack.", "none", "POLICY")
        for role in _TF_ROLES[:2]
    ),
    *(
        flag(f"--{role}-affinity-constraint", str, "preferred or required.", "preferred", "WORD")
        for role in _TF_ROLES[:2]
    ),
    flag("--success-policy", str, "ChiefWorker or AllWorkers.", "ChiefWorker", "POLICY"),
    flag("--role-sequence", str, "The order in which roles start: w,p,c,e.", metavar="ROLES"),
)
OF_KIND: dict[JobKind, tuple[Flag, ...]] = {
    JobKind.MPI: (*SHARED, *_MPI),
    JobKind.PYTORCH: (*SHARED, *_PYTORCH),
    JobKind.TF: (*SHARED, *_TF),
}
"""All flags of `arena submit KIND`."""
