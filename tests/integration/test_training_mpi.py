"""Training jobs on virtual nodes: real Open MPI and torchrun across namespaces, real datasets, real kills."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from headrace.errors import BusyError, ConfigError, MissingJobError, TakenJobError
from headrace.jobs.backend import LogWish
from headrace.jobs.spec import (
    CleanPolicy,
    ConfigFile,
    DataVolume,
    HostFolder,
    JobKind,
    JobSpec,
    Resources,
    Role,
    RoleName,
)
from headrace.jobs.views import JobPhase, JobView
from headrace.local.jobs.client import LocalJobBackend
from headrace.local.layout import BackendLayout
from headrace.local.processes.cgroups import Limits, why_not
from headrace.local.processes.process_tags import tagged_processes
from headrace.local.protocol.client import LocalClient
from headrace.netns.namespaces import can_make_namespaces

from .harness import HEADRACE, Shell, bytes_of, eventually, files_below
from .mpi_logs import without_warnings

pytestmark = [
    pytest.mark.skipif(not can_make_namespaces(), reason="needs root and network namespaces"),
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Open MPI (openmpi-bin)"),
]

DEADLINE_S = 120.0
LIMITS = Limits(1 << 28, 1.5)
ARENA = [sys.executable, "-c", "import sys; from headrace.cli.arena.main import main; sys.exit(main())"]
FILE_BYTES = 1 << 20
SECRET = "VALUE-THAT-NOBODY-SHALL-SEE"
DATASET = """apiVersion: data.fluid.io/v1alpha1
kind: Dataset
metadata: {{name: {name}}}
spec:
  placement: Shared
  mounts: [{{mountPoint: "local://{folder}/data", name: {name}}}]
---
apiVersion: data.fluid.io/v1alpha1
kind: AlluxioRuntime
metadata: {{name: {name}}}
spec:
  replicas: 2
  tieredstore:
    levels: [{{mediumtype: SSD, path: "{folder}/cache-{name}", quota: 64Mi}}]
"""
# All ranks add up their numbers, over the network between nodes; and each says where it is.
ALLREDUCE = """
import ctypes, os, socket
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
world = ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
mine, total = (ctypes.c_int * 100000)(*[rank + 1] * 100000), (ctypes.c_int * 100000)()
mpi.MPI_Allreduce(mine, total, 100000,
    ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_int"))),
    ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_op_sum"))), ctypes.c_void_p(world))
print("RANK", rank, "HOST", socket.gethostname(), os.environ["HEADRACE_NODE"],
      "SUM", total[0], total[99999], "READ", len(open(os.environ["DATA_DIR"] + "/a", "rb").read()),
      "SAID", repr(os.environ["SAID"]), flush=True)
mpi.MPI_Finalize()
"""
TORCH = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(value)
print("TORCH", dist.get_rank(), dist.get_world_size(), value.item(), os.environ["HEADRACE_NODE"], flush=True)
"""
ODD = "a,b=c 'd' \"e\" $(f) `g` # : ü\n  second line\\"


@dataclass(frozen=True)
class Machine:
    """A backend that is up, and a folder of its tests."""

    shell: Shell
    folder: Path
    jobs: LocalJobBackend

    @property
    def places(self) -> BackendLayout:
        return BackendLayout(self.folder / "state" / "local")

    def spec(self, name: str, *command: str, kind: JobKind = JobKind.MPI, **fields: Any) -> JobSpec:
        workers, slots = fields.pop("workers", 2), fields.pop("slots", 2)
        own = {
            "roles": (
                Role(name=RoleName.LAUNCHER, replicas=1),
                Role(name=RoleName.WORKER, replicas=workers, resources=Resources(gpus=slots)),
            ),
            "working_dir": str(self.folder),
        }
        return JobSpec(name=name, namespace="default", kind=kind, command=command, **{**own, **fields})

    def submit(self, spec: JobSpec) -> None:
        assert list(self.jobs.problems(spec)) == []
        self.jobs.submit(spec)

    def view(self, name: str) -> JobView:
        return self.jobs.get("default", name, None, events=True)

    def wait(self, name: str, phase: JobPhase) -> JobView:
        eventually(lambda: self.view(name).phase is phase, lambda: (self.view(name), self.log(name)))
        return self.view(name)

    def log(self, name: str, **wish: Any) -> str:
        return without_warnings(b"".join(self.jobs.logs(self.view(name), LogWish(**wish))).decode())

    def said(self, name: str, word: str) -> None:
        """Waits until the program has said a word."""
        eventually(lambda: word in self.log(name), lambda: (self.view(name), self.log(name)))

    def delete(self, name: str) -> None:
        assert self.jobs.delete(self.view(name))

    def arena(self, *words: str) -> str:
        """What a command told on standard output; it must succeed."""
        done = subprocess.run(
            words,
            env=self.shell.full_environment(),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def processes(self, instance: str = "") -> dict[str, list[int]]:
        """Those of jobs, by instance."""
        found: dict[str, list[int]] = {}
        for each in tagged_processes(LocalClient(self.places).hello().instance):
            if each.role.startswith("training:") and each.role.endswith(instance):
                found.setdefault(each.role.rpartition(":")[2], []).append(each.pid)
        return found

    def first(self, instance: str) -> int:
        """The process of an instance itself."""
        roles = LocalClient(self.places).status().roles
        return next(line.pid or 0 for line in roles if line.id.endswith(f":{instance}"))

    def dataset(self, name: str) -> None:
        file = self.folder / "objects.yaml"
        file.write_text(DATASET.format(name=name, folder=self.folder))
        self.shell.must("apply", "-f", file)
        self.shell.must("wait", f"dataset/{name}", "--for=jsonpath={.status.phase}=Bound", "--timeout", "2m")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    folder = Path(tempfile.mkdtemp(prefix="headrace-training-"))
    folder.chmod(0o755)
    (folder / "home" / "run").mkdir(parents=True, mode=0o700)
    (folder / "data").mkdir()
    for name in "abcd":
        (folder / "data" / name).write_bytes(os.urandom(FILE_BYTES))
    own = {
        "HEADRACE_STATE_DIR": str(folder / "state"),
        "HEADRACE_RUNTIME_DIR": str(folder / "home" / "run"),
    }
    shell = Shell(folder / "home", own)
    shell.must("up", "--nodes", "3", "--node-label", "node-3:disk=none")
    made = Machine(shell, folder, LocalJobBackend(BackendLayout(folder / "state" / "local")))
    try:
        made.dataset("imagenet")
        yield made
    finally:
        shell.must("down")
        assert not (folder / "state" / "local").exists()
        shutil.rmtree(folder)


def test_ranks_of_all_nodes_compute_together_on_the_dataset_and_its_cost_is_told(machine: Machine) -> None:
    (machine.folder / "reduce.py").write_text(ALLREDUCE)
    spec = machine.spec(
        "sum",
        "sh",
        "-c",
        'hostname; mpirun "$0" reduce.py; cat "$HEADRACE_DATASET_IMAGENET"/*/b | wc -c; exit 0',
        sys.executable,
        data=(DataVolume(claim="imagenet", path=f"{machine.folder}/mnt/data"),),
        environment={"DATA_DIR": f"{machine.folder}/mnt/data/imagenet", "SAID": ODD, "API_TOKEN": SECRET},
        mounts_on_launcher=True,
    )
    machine.submit(spec)
    view = machine.wait("sum", JobPhase.SUCCEEDED)
    lines = machine.log("sum").splitlines()
    assert lines[0] == view.chief.name  # type: ignore[union-attr]
    ranks = sorted(line.split(" ", 2)[1:] for line in lines if line.startswith("RANK"))
    assert len(ranks) == 4
    for number, (rank, rest) in enumerate(ranks):
        worker = number // 2
        node = view.instances[1 + worker].node
        assert rank == str(number)
        assert rest == f"HOST sum-worker-{worker} {node} SUM 10 10 READ {FILE_BYTES} SAID {ODD!r}"
    assert lines[-1] == str(FILE_BYTES)
    # Workers are spread, and where the data is.
    assert {each.node for each in view.instances[1:]} == {"node-1", "node-2"}
    assert view.exit_code == 0
    eventually(lambda: (machine.view("sum").data_cost or view.data_cost) is not None)
    eventually(lambda: machine.view("sum").data_cost.origin_bytes >= 2 * FILE_BYTES)  # type: ignore[union-attr]
    cost = machine.view("sum").data_cost
    assert cost is not None
    assert not cost.is_shared
    # Nothing that is secret is kept, and nothing is left but the log.
    kept = files_below(machine.places.folder)
    assert not [path for path in kept if SECRET.encode() in bytes_of(path)]
    assert view.spec is not None
    assert view.spec.environment["API_TOKEN"] == ""
    assert not machine.processes()
    assert not (machine.folder / "mnt").exists()
    machine.delete("sum")
    with pytest.raises(MissingJobError):
        machine.view("sum")


def test_a_job_waits_for_warm_data_and_its_dataset_can_be_deleted_right_after_its_end(
    machine: Machine,
) -> None:
    machine.dataset("brief")
    data = (DataVolume(claim="brief", path=f"{machine.folder}/brief", sub_path="brief"),)
    line = f"mpirun cat {machine.folder}/brief/c | wc -c"
    for name in ("brief", "late"):
        machine.submit(machine.spec(name, line, data=data, wait_warm_percent=100))
        eventually(lambda name=name: "waits for 100 %" in machine.view(name).reason)
        assert machine.view(name).phase is JobPhase.SUSPENDED
    machine.delete("late")
    assert len(machine.jobs.release(machine.view("brief"))) == 1
    machine.wait("brief", JobPhase.SUCCEEDED)
    assert machine.log("brief").split() == [str(4 * FILE_BYTES)]
    machine.shell.must("delete", "dataset", "brief", "--timeout", "80s", deadline_s=90)
    assert machine.view("brief").phase is JobPhase.SUCCEEDED
    machine.delete("brief")


def test_the_command_of_the_seeds_runs_here_as_it_is_written_there(machine: Machine) -> None:
    folder = machine.folder / "horovod-demo"
    folder.mkdir()
    script = folder / "launch-example.sh"
    script.write_text('#!/bin/sh\nmpirun sh -c "ls $DATA_DIR | wc -l"; echo "$num_batch $*"\n')
    script.chmod(0o755)
    arena = [str(Path(HEADRACE).with_name("arena"))] if Path(HEADRACE).with_name("arena").exists() else ARENA
    line = (
        f"submit mpi --name horovod-resnet50 --gpus=8 --workers=4 --working-dir={folder} --data imagenet:/data "
        "-e DATA_DIR=/data/imagenet -e num_batch=1000 -e datasets_num_private_threads=8 "
        "--image=registry.cn-hangzhou.aliyuncs.com/tensorflow-samples/horovod-benchmark:0.18.1 ./launch-example.sh 4 8"
    )
    machine.arena(*arena, *line.split())
    machine.wait("horovod-resnet50", JobPhase.SUCCEEDED)
    told = without_warnings(machine.arena(*arena, "logs", "--tail", "100", "horovod-resnet50")).split("\n")
    assert told == ["4"] * 32 + ["1000 4 8", ""]
    shown = machine.arena(*arena, "get", "-e", "horovod-resnet50")
    assert shown.startswith("STATUS: SUCCEEDED\nNAMESPACE: default\n")
    assert shown.count("MPIJOB") == 5
    machine.arena(*arena, "delete", "horovod-resnet50")
    assert not Path("/data").exists()


def test_what_speaks_against_a_job_is_said_before_anything_is_made(machine: Machine) -> None:
    data = (DataVolume(claim="nowhere", path="/mnt/x"),)
    spec = machine.spec("bad", "true", data=data, selector={"gpu": "none"}, working_dir="/not/there")
    said = "\n".join(machine.jobs.problems(spec))
    for word in ("neither a dataset nor a claim nowhere", "no node fits", "no working folder /not/there"):
        assert word in said
    with pytest.raises(ConfigError, match="nowhere"):
        machine.jobs.submit(spec)
    assert machine.jobs.jobs(None) == ()


def test_a_job_that_fails_is_tried_again_and_then_tells_its_code_and_keeps_all_logs(machine: Machine) -> None:
    machine.submit(machine.spec("fails", "echo try; exit 7", retries=1))
    with pytest.raises(TakenJobError):
        machine.jobs.submit(machine.spec("fails", "true"))
    view = machine.wait("fails", JobPhase.FAILED)
    assert view.exit_code == 7
    assert view.chief is not None
    assert view.reason == f"{view.chief.name} on {view.chief.node} exited with 7"
    merged = machine.log("fails", all_instances=True).splitlines()
    launchers = [line.split("]")[0] for line in merged if line.endswith("] try")]
    assert len(set(launchers)) == 2
    machine.delete("fails")


def test_a_killed_worker_fails_the_job_and_nothing_of_it_goes_on(machine: Machine) -> None:
    machine.submit(machine.spec("loses", "mpirun sh -c 'echo up; sleep 600'"))
    machine.wait("loses", JobPhase.RUNNING)
    machine.said("loses", "up")
    os.kill(machine.first("loses-worker-1"), signal.SIGKILL)
    view = machine.wait("loses", JobPhase.FAILED)
    killed = next(each for each in view.instances if each.name == "loses-worker-1")
    assert (killed.status, killed.reason) == ("FAILED", "was killed")
    assert "loses-worker-1" in view.reason or "launcher" in view.reason
    assert not machine.processes()
    machine.delete("loses")


@pytest.mark.skipif(bool(why_not(LIMITS)), reason=f"no limits here: {why_not(LIMITS)}")
def test_a_rank_that_goes_over_its_memory_fails_the_job_and_is_named(machine: Machine) -> None:
    roles = (
        Role(name=RoleName.LAUNCHER, replicas=1),
        Role(name=RoleName.WORKER, replicas=2, resources=Resources(cpu_limit="1500m", memory_limit="256Mi")),
    )
    fill = '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec "$0" -c "bytearray(1 << 30)"; sleep 600'
    spec = machine.spec("greedy", "mpirun", "sh", "-c", fill, sys.executable, roles=roles)
    assert not [each for each in machine.jobs.notices(spec) if "memory" in each]
    machine.submit(spec)
    view = machine.wait("greedy", JobPhase.FAILED)
    worker = next(each for each in view.instances if each.name == "greedy-worker-1")
    assert (worker.status, worker.exit_code) == ("FAILED", 137)
    assert worker.reason == "went over its memory limit of 256.00MiB and was killed (OOMKilled)"
    assert view.reason == f"greedy-worker-1 on {worker.node} {worker.reason}"
    assert view.exit_code not in (0, None)
    machine.delete("greedy")
    # Groups of others come and go meanwhile.
    groups = (name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names)
    assert not [name for name in groups if fnmatch(name, "headrace-*-greedy-*")]


def test_a_killed_launcher_is_started_once_more_and_never_beside_the_first(machine: Machine) -> None:
    counting = (
        "exec 9> alive; flock -n 9 || exit 9; echo $$ >> tries; echo up; "
        "[ $(wc -l < tries) = 2 ] || sleep 600 & wait"
    )
    folder = machine.folder / "once"
    folder.mkdir()
    machine.submit(machine.spec("again", counting, retries=1, working_dir=str(folder)))
    machine.said("again", "up")
    chief = machine.view("again").chief
    assert chief is not None
    os.kill(machine.first(chief.name), signal.SIGKILL)
    view = machine.wait("again", JobPhase.SUCCEEDED)
    assert view.chief is not None
    assert view.chief.name != chief.name
    assert len((folder / "tries").read_text().split()) == 2
    machine.delete("again")


def test_a_killed_supervisor_costs_a_job_nothing(machine: Machine) -> None:
    gate = machine.folder / "gate"
    line = f"mpirun sh -c 'echo began; while [ ! -e {gate} ]; do sleep 0.1; done; echo done'; exit 3"
    machine.submit(machine.spec("lasts", line))
    machine.said("lasts", "began")
    before = machine.processes()
    os.kill(LocalClient(machine.places).hello().pid, signal.SIGKILL)
    gate.touch()
    launcher = next(pids for name, pids in before.items() if "launcher" in name)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in launcher))
    machine.shell.must("up", "--nodes", "3")
    view = machine.wait("lasts", JobPhase.FAILED)
    assert view.exit_code == 3
    assert machine.log("lasts").splitlines().count("done") == 4
    assert [event.reason for event in view.events].count("Placed") == 1
    machine.delete("lasts")


def test_a_job_is_deleted_while_it_runs(machine: Machine) -> None:
    machine.submit(machine.spec("runs", "mpirun sleep 600", environment={"API_TOKEN": SECRET}))
    machine.wait("runs", JobPhase.RUNNING)
    eventually(lambda: sum(map(len, machine.processes().values())) >= 7, machine.processes)
    seen = []
    for pid in itertools.chain.from_iterable(machine.processes().values()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one that has ended meanwhile
            seen.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    assert not [line for line in seen if SECRET.encode() in line]
    machine.delete("runs")
    assert machine.jobs.jobs(None) == ()
    assert not machine.processes()
    assert json.loads(machine.shell.must("status", "--local", "--json").stdout)["uses"] == []
    assert list((machine.places.folder / "training").iterdir()) == []


def test_files_folders_memory_and_terminal_are_those_of_the_job(machine: Machine) -> None:
    (machine.folder / "code").mkdir()
    (machine.folder / "code" / "run.sh").write_text(
        "#!/bin/sh\ncat conf/my.conf\ndf -k /dev/shm | tail -1\n$WAITS\n"
    )
    (machine.folder / "code" / "run.sh").chmod(0o755)
    (machine.folder / "code" / "conf").mkdir()
    spec = machine.spec(
        "files",
        "./run.sh",
        "4",
        "8",
        working_dir="/headrace-demo/code",
        host_folders=(HostFolder(host_path=f"{machine.folder}/code", path="/headrace-demo/code"),),
        config_files=(ConfigFile(path="/headrace-demo/settings/a.conf", content=SecretStr(SECRET)),),
        environment={"WAITS": "sleep 600"},
        shared_memory="16Mi",
        clean_policy=CleanPolicy.ALL,
    )
    (machine.folder / "code" / "conf" / "my.conf").write_text("of the folder\n")
    machine.submit(spec)
    machine.said("files", "16384")
    view = machine.wait("files", JobPhase.RUNNING)
    assert machine.log("files").startswith("of the folder\n")
    script = f"test $(cat /headrace-demo/settings/a.conf) = {SECRET} && test $(hostname) = files-worker-1 && exit 5"
    assert machine.jobs.attach(view, "files-worker-1", "", ["sh", "-c", script]) == 5
    assert machine.jobs.attach(view, "", "", ["no-such-program"]) == 127
    assert not Path("/headrace-demo/code/run.sh").exists()
    machine.delete("files")
    assert not Path("/headrace-demo").exists()


def test_torchrun_and_tensorflow_are_told_of_each_other(machine: Machine) -> None:
    if shutil.which("torchrun") is None:
        pytest.skip("needs PyTorch (python3-torch)")
    (machine.folder / "all.py").write_text(TORCH)
    roles = (Role(name=RoleName.MASTER, replicas=1), Role(name=RoleName.WORKER, replicas=1))
    machine.submit(
        machine.spec(
            "torch",
            # Debian's has no words for an output that is left as it is (with Python 3.11).
            "env -u PYTHONPATH PATH=/usr/bin:/bin torchrun -r 1 -t 1 all.py",
            kind=JobKind.PYTORCH,
            roles=roles,
            processes_per_node="1",
        )
    )
    show = 'printf "TF %s\\n" "$TF_CONFIG"'
    roles = (Role(name=RoleName.PS, replicas=1), Role(name=RoleName.WORKER, replicas=2))
    machine.submit(machine.spec("flow", show, kind=JobKind.TF, roles=roles))
    view = machine.wait("flow", JobPhase.SUCCEEDED)
    texts = [line.partition("TF ")[2] for line in machine.log("flow", all_instances=True).splitlines()]
    clusters = [json.loads(text) for text in texts if text]
    assert len({json.dumps(each["cluster"], sort_keys=True) for each in clusters}) == 1
    hosts = [each.partition(":")[0] for each in clusters[0]["cluster"]["worker"]]
    assert hosts == [each.address for each in view.instances if each.role is RoleName.WORKER]
    machine.wait("torch", JobPhase.SUCCEEDED)
    lines = [line for line in machine.log("torch", all_instances=True).splitlines() if "TORCH" in line]
    assert sorted(line.split("TORCH ")[1][:9] for line in lines) == ["0 2 3.0 n", "1 2 3.0 n"]
    machine.delete("torch")
    machine.delete("flow")


def test_time_limits_and_kept_times_are_honoured(machine: Machine) -> None:
    machine.submit(machine.spec("long", "mpirun sleep 600", running_timeout_s=2, retries=3))
    machine.submit(machine.spec("short", "true", ttl_after_finished_s=1))
    view = machine.wait("long", JobPhase.FAILED)
    assert view.reason == "it ran for longer than 2 s"

    def is_gone() -> bool:
        with contextlib.suppress(MissingJobError):
            machine.view("short")
            return False
        return True

    eventually(is_gone)
    with pytest.raises(BusyError):
        machine.jobs.attach(view, "", "", ["true"])
    machine.delete("long")
