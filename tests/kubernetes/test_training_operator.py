"""PyTorchJobs, TFJobs and MPIJobs of v1 on a real cluster, run by the real training operator of Kubeflow.

The operator checks what it is given by a webhook of its own, so everything here has passed that, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from arena_on_kubernetes import (
    GREETING,
    READ_AS_RANK,
    READ_EVERYTHING,
    Arena,
    JobOperator,
    arena_on,
    bucket_for_jobs,
    operator_on,
)
from charts import Release
from datasets_on_kubernetes import Bucket

from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.kubectl import Kubectl
from headrace.testing.kubernetes.training_operator import (
    install_training_operator,
    training_operator_images,
    uninstall_training_operator,
)

pytestmark = [pytest.mark.root, pytest.mark.slow]

_REACH = """
import json, os, socket, sys, threading, time
def reach(host, port):
    until = time.monotonic() + 120
    while True:
        try:
            return socket.create_connection((host, port), 5)
        except OSError as error:
            if time.monotonic() > until:
                sys.exit(f"{host}:{port} cannot be reached: {error}")
            time.sleep(0.2)
"""
# As `init_method=env://` does it: the first rank listens, the others come to it, and all learn who is there.
MEET_AS_RANK = (
    READ_EVERYTHING
    + _REACH
    + """
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    server = socket.create_server(("", port))
    streams = [server.accept()[0].makefile("rw") for _ in range(world - 1)]
    met = [0, *sorted(int(each.readline()) for each in streams)]
    for each in streams:
        print(json.dumps(met), file=each, flush=True)
else:
    connection = reach(host, port)
    connection.settimeout(None)
    stream = connection.makefile("rw")
    print(rank, file=stream, flush=True)
    met = json.loads(stream.readline())
print(f"rank {rank} of {world} met {met}, read {digest}, was told {sys.argv[1:]!r} {os.environ['GREETING']!r}")
if rank == 0:
    while not os.path.exists("/tmp/go"):
        time.sleep(0.2)
else:
    # Until the first rank ends.
    stream.read()
"""
)
# Each task of TF_CONFIG listens where that says, and comes to all others.
MEET_AS_TASK = (
    READ_EVERYTHING
    + _REACH
    + """
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
me = f"{task['type']}-{task['index']}"
others = [(f"{kind}-{index}", address) for kind, addresses in config["cluster"].items()
          for index, address in enumerate(addresses)]
server = socket.create_server(("", int(dict(others)[me].rpartition(":")[2])))
others = [each for each in others if each[0] != me]
def come(address):
    host, _, port = address.rpartition(":")
    connection = reach(host, int(port))
    connection.sendall(me.encode())
    connection.close()
comers = [threading.Thread(target=come, args=(address,)) for _, address in others]
for each in comers:
    each.start()
met = []
for _ in others:
    connection = server.accept()[0]
    met.append(connection.makefile("r").read())
for each in comers:
    each.join()
said = f"{me} met {sorted(met)}, read {digest}, was told {sys.argv[1:]!r} {os.environ['GREETING']!r}"
print(said, flush=True)
while task["type"] == "ps" or (me == "worker-0" and not os.path.exists("/tmp/go")):
    time.sleep(0.2)
"""
)
WORDS = ("one word", '$(HOME) "it\'s"', "--flag=ü,#")


@pytest.fixture(scope="module")
def operator(cluster: Cluster) -> Iterator[None]:
    with operator_on(
        cluster, JobOperator(training_operator_images, install_training_operator, uninstall_training_operator)
    ):
        yield


@pytest.fixture(scope="module")
def bucket(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with bucket_for_jobs(cluster, tmp_path_factory.mktemp("s3")) as made:
        yield made


@pytest.fixture(scope="module")
def arena(release: Release, operator: None, kubernetes: Kubectl, bucket: Bucket) -> Iterator[Arena]:
    with arena_on(kubernetes, "torch", bucket, "pytorch") as made:
        yield made


def test_a_job_of_pytorch_from_its_first_word_to_its_last(arena: Arena, bucket: Bucket) -> None:
    created = arena.submit(
        "torch", "--suspend", "-e", f"GREETING={GREETING}", "python3", "-c", MEET_AS_RANK, *WORDS
    )
    assert "pytorchjob.kubeflow.org/torch created" in created
    arena.until("torch", "SUSPENDED")
    assert arena.pods() == []
    arena("release", "torch")

    running = arena.until("torch", "RUNNING")
    assert [(each["name"], each["chief"]) for each in running["instances"]] == [
        ("torch-master-0", True),
        ("torch-worker-0", False),
    ]
    assert "PYTORCHJOB" in arena("list")
    read = f"met [0, 1], read {bucket.digest()}, was told {list(WORDS)!r} {GREETING!r}"
    for rank, instance in enumerate(("torch-master-0", "torch-worker-0")):
        words, said = ("-i", instance), f"rank {rank} of 2 {read}"
        arena.kubectl.wait(lambda words=words, said=said: said in arena("logs", "torch", *words), said)

    log = arena("logs", "torch")
    arena("attach", "torch", "--", "touch", "/tmp/go")
    assert arena.wait_for_end("torch", "60s") == 0
    arena.kubectl.wait(lambda: arena.holders() == [], "pods to let go of the claim")
    assert arena("logs", "torch") == log, "the log outlives its pod"
    assert arena.until("torch", "SUCCEEDED")["exitCode"] == 0
    assert 'pytorchjob.kubeflow.org "torch" deleted' in arena.delete("torch")


def test_a_job_of_pytorch_fails_with_the_code_of_the_rank_that_failed(arena: Arena) -> None:
    arena.submit("wrong", '[ "$RANK" = 1 ] || sleep 600; echo rank $RANK gives up; exit 7')
    assert arena.wait_for_end("wrong") == 1
    ended = arena.until("wrong", "FAILED")
    assert ended["reason"] == "wrong-worker-0: it ended with exit code 7"
    assert ended["exitCode"] == 7
    arena.kubectl.wait(lambda: arena.holders() == [], "pods to let go of the claim")
    assert "rank 1 gives up" in arena("logs", "wrong", "-i", "wrong-worker-0")
    arena.delete("wrong")


def test_a_job_of_pytorch_is_tried_again(arena: Arena) -> None:
    # What lies in shared memory outlives the container, and not the pod.
    once = "[ -e /dev/shm/tried ] || { touch /dev/shm/tried; echo not yet; exit 3; }; echo now it does"
    arena.submit("again", "--retry", "4", once)
    assert arena.wait_for_end("again", "180s") == 0
    assert "now it does" in arena("logs", "again")
    arena.delete("again")


def test_a_job_of_pytorch_that_loses_a_node_says_which_and_lets_go_of_its_data(
    arena: Arena, cluster: Cluster
) -> None:
    arena.submit("bereft", "sleep 600")
    nodes = {each["name"]: each["node"] for each in arena.until("bereft", "RUNNING")["instances"]}
    worker, node = "bereft-worker-0", nodes["bereft-worker-0"]
    assert node != nodes["bereft-master-0"]
    cluster.node(node).cut()
    try:
        for said in (f"{worker}: its node {node} does not answer", f"{worker}: its node {node} is away"):
            arena.kubectl.wait(lambda said=said: said in arena.job("bereft")["reason"], said)
    finally:
        cluster.node(node).repair()
    assert arena.wait_for_end("bereft", "150s") == 1
    assert f"{worker}: its node {node} is away" in arena.job("bereft")["reason"]
    arena.kubectl.wait(lambda: arena.holders() == [], "pods to let go of the claim")
    arena.delete("bereft")


def test_a_job_of_tensorflow_from_its_first_word_to_its_last(arena: Arena, bucket: Bucket) -> None:
    words = ("--ps=1", "-e", f"GREETING={GREETING}", "python3", "-c", MEET_AS_TASK, *WORDS)
    assert "tfjob.kubeflow.org/flow created" in arena.submit("flow", *words, kind="tf")
    running = arena.until("flow", "RUNNING")
    names = {each["name"]: each["chief"] for each in running["instances"]}
    assert names == {"flow-worker-0": True, "flow-worker-1": False, "flow-ps-0": False}
    for task in ("ps-0", "worker-0", "worker-1"):
        met = sorted({"ps-0", "worker-0", "worker-1"} - {task})
        said = f"{task} met {met}, read {bucket.digest()}, was told {list(WORDS)!r} {GREETING!r}"
        instance = f"flow-{task}"
        arena.kubectl.wait(
            lambda instance=instance, said=said: said in arena("logs", "flow", "-i", instance), said
        )
    arena("attach", "flow", "--", "touch", "/tmp/go")
    # A parameter server never ends by itself.
    assert arena.wait_for_end("flow", "60s") == 0
    arena.kubectl.wait(lambda: arena.holders() == [], "pods to let go of the claim")
    assert "worker-0 met" in arena("logs", "flow")
    assert 'tfjob.kubeflow.org "flow" deleted' in arena.delete("flow")


def test_a_job_of_tensorflow_fails_with_the_code_of_its_chief(arena: Arena) -> None:
    script = 'case $TF_CONFIG in *\\"chief\\",\\"index*) echo giving up; exit 5;; *) sleep 600;; esac'
    arena.submit("unlearned", "--chief", script, kind="tf")
    assert arena.wait_for_end("unlearned") == 1
    ended = arena.until("unlearned", "FAILED")
    assert (ended["reason"], ended["exitCode"]) == ("unlearned-chief-0: it ended with exit code 5", 5)
    arena.kubectl.wait(lambda: arena.holders() == [], "pods to let go of the claim")
    assert "giving up" in arena("logs", "unlearned")
    arena.delete("unlearned")


def test_a_job_of_mpi_on_the_older_version(arena: Arena, bucket: Bucket) -> None:
    words = ("-e", f"GREETING={GREETING}", "-e", f"READER={READ_AS_RANK}", "--mounts-on-launcher")
    created = arena.submit("old", *words, 'mpirun python3 -c "$READER"', kind="mpi")
    assert "mpijob.kubeflow.org/old created" in created
    shown = arena.kubectl.get("-n", arena.namespace, "mpijobs.v1.kubeflow.org", "old")
    assert shown["apiVersion"] == "kubeflow.org/v1"
    assert arena.wait_for_end("old", "180s") == 0, arena("logs", "old")
    log = arena("logs", "old")
    for rank, host in enumerate(("old-worker-0", "old-worker-1")):
        assert f"rank {rank} on {host} read {bucket.digest()} {GREETING!r}" in log
    arena.kubectl.wait(lambda: arena.holders() == [], "pods to let go of the claim")
    arena.delete("old")


def test_a_job_of_mpi_on_the_older_version_fails_with_the_code_of_its_ranks(arena: Arena) -> None:
    arena.submit("older", "mpirun -np 1 sh -c 'exit 9'", kind="mpi")
    assert arena.wait_for_end("older", "180s") == 1
    ended = arena.until("older", "FAILED")
    assert (ended["reason"], ended["exitCode"]) == ("older-launcher: it ended with exit code 9", 9)
    arena.delete("older")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("mpi", ("--gang", "--retry=2", "--mounts-on-launcher", "--running-timeout=1m", "--suspend")),
        ("pytorch", ("--gpus=1", "--nproc-per-node=2", "--running-timeout=1h", "--share-memory=1Gi")),
        (
            "tf",
            (
                "--ps=1",
                "--chief",
                "--evaluator",
                "--clean-task-policy=Running",
                "--tensorboard",
                "--logdir=/data/logs",
            ),
        ),
    ],
)
def test_the_api_server_and_the_operator_take_every_word_of_what_is_written(
    arena: Arena, tmp_path: Path, kind: str, words: tuple[str, ...]
) -> None:
    """Strictly: no field that the operator's kinds do not know."""
    assert f"seen-{kind} created" in arena.created_strictly(kind, tmp_path, *words)
