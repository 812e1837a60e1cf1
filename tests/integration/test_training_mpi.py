"""Training jobs on virtual nodes: real Open MPI and torchrun across namespaces, real datasets, real kills."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import IO

import pytest
from arena_seeds import DELETES, GETS, LOGS, SUBMITS, words_of
from pydantic import SecretStr

from headrace.cli.arena.main import main as arena
from headrace.errors import BusyError, ConfigError, MissingJobError, TakenJobError
from headrace.jobs.spec import (
    CleanPolicy,
    ConfigFile,
    DataVolume,
    HostFolder,
    JobKind,
    Resources,
    Role,
    RoleName,
)
from headrace.jobs.views import JobPhase, JobView
from headrace.local.jobs.job_client import LocalJobBackend
from headrace.local.layout import BackendLayout
from headrace.local.processes.cgroups import Limits, why_not
from headrace.local.protocol.client import LocalClient
from headrace.netns.namespaces import can_make_namespaces, remove_namespace

from .harness import DEADLINE_S, Shell, bytes_of, eventually, files_below
from .mpi_logs import without_warnings
from .training_machine import Machine

pytestmark = [
    pytest.mark.skipif(not can_make_namespaces(), reason="needs root and network namespaces"),
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Open MPI (openmpi-bin)"),
]

LIMITS = Limits(1 << 28, 1.5)
FILE_BYTES = 1 << 20
SECRET = "VALUE-THAT-NOBODY-SHALL-SEE"
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
# In one piece: torchrun puts a word of its own before whatever it finds in a file that it follows.
words = f"TORCH {dist.get_rank()} {dist.get_world_size()} {value.item()} {os.environ['HEADRACE_NODE']}"
os.write(1, f"{words}\\n".encode())
"""
ODD = "a,b=c 'd' \"e\" $(f) `g` # : ü\n  second line\\"


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
    # Four files of one size: the last of these waits for all, which never come.
    for name, percent in (("brief", 100), ("warmed", 75), ("late", 100)):
        machine.submit(machine.spec(name, line, data=data, wait_warm_percent=percent))
        eventually(lambda name=name: "of its data is cached" in machine.view(name).reason)
        assert machine.view(name).phase is JobPhase.SUSPENDED
    assert len(machine.jobs.release(machine.view("brief"))) == 1
    machine.wait("brief", JobPhase.SUCCEEDED)
    assert machine.log("brief").split() == [str(4 * FILE_BYTES)]
    assert machine.view("warmed").phase is JobPhase.SUSPENDED
    # With the one that was read, three of four files.
    machine.load("brief", "brief/a", "brief/b")
    machine.wait("warmed", JobPhase.SUCCEEDED)
    assert machine.log("warmed").split() == [str(4 * FILE_BYTES)]
    late = machine.view("late")
    assert (late.phase, late.started) == (JobPhase.SUSPENDED, None)
    assert "it starts once 100 % of its data is cached; so far: " in late.reason and " 75 %." in late.reason
    machine.delete("late")
    machine.shell.must("delete", "dataset", "brief", "--timeout", "80s", deadline_s=90)
    assert machine.view("brief").phase is JobPhase.SUCCEEDED
    machine.delete("brief")
    machine.delete("warmed")


@pytest.fixture
def image_folder(machine: Machine) -> Iterator[Path]:
    """Where the seeds' image has its programs."""
    place, folder = Path("/horovod-demo"), machine.folder / "horovod-demo" / "tensorflow-demo"
    if place.is_symlink() and not place.exists():
        place.unlink()  # of a test that was killed
    if place.exists():
        pytest.skip(f"this machine has a folder {place} of its own")
    folder.mkdir(parents=True)
    place.symlink_to(folder.parent)
    yield folder
    place.unlink()


@pytest.fixture
def look(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What `arena` shows, without the half second in which a process of its own begins."""
    for name, value in machine.shell.environment.items():
        monkeypatch.setenv(name, value)

    def shown(*words: str) -> str:
        assert arena(list(words)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return shown


def test_the_commands_of_seed_001_run_here_as_they_are_written_there(
    machine: Machine, image_folder: Path, look: Callable[..., str]
) -> None:
    script = image_folder / "launch-example.sh"
    script.write_text(
        '#!/bin/sh\nmpirun sh -c "ls $DATA_DIR | wc -l"\n'
        'until [ -e go ]; do sleep 0.1; done\necho "$num_batch $datasets_num_private_threads $*"\n'
    )
    script.chmod(0o755)
    machine.arena(*words_of(SUBMITS["001"]))
    job = machine.wait("horovod-resnet50-v2-4x8-fluid", JobPhase.RUNNING)
    shown = machine.arena(*words_of(GETS["001"]))
    assert shown.startswith("STATUS: RUNNING\nNAMESPACE: default\nPRIORITY: N/A\nTRAINING DURATION: ")
    rows = [line.split() for line in shown.splitlines() if line.startswith(f"{job.name} ")]
    assert [row[1:3] for row in rows] == [["RUNNING", "MPIJOB"]] * 5
    assert "[Running] all its processes run" in shown
    with machine.beginning(*words_of(LOGS["001"])) as reader:
        _check_what_else_shows_a_job(look, job)
        (image_folder / "go").touch()
        told, _ = reader.communicate(timeout=DEADLINE_S)
    assert reader.returncode == 0
    assert without_warnings(told).split("\n") == ["4"] * 32 + ["1000 8 4 8", ""]
    assert machine.wait(job.name, JobPhase.SUCCEEDED).exit_code == 0
    assert machine.arena(*words_of(DELETES["001"])) == f'mpijob.kubeflow.org "{job.name}" deleted\n'
    with machine.beginning(*words_of(GETS["001"])) as reader:
        _, complaint = reader.communicate(timeout=DEADLINE_S)
    assert reader.returncode == 1
    assert f"Not found training job {job.name} in namespace default,please use 'arena submit'" in complaint
    assert not Path("/data").exists()


def _check_what_else_shows_a_job(look: Callable[..., str], job: JobView) -> None:
    """Commands that no seed has, on a job that has 32 slots and reads the only dataset."""
    chief = job.chief
    assert chief is not None
    head, row, *_ = look("list", "-o", "wide").splitlines()
    titles = ["HIT", "RATIO", "FROM", "ORIGIN", "FROM", "PEERS", "LOCAL", "STALLED"]
    assert head.split() == ["NAME", "STATUS", "TRAINER", "AGE", "NODE", "TRAINING", "DURATION", *titles]
    assert row.split()[:3] == [job.name, "RUNNING", "MPIJOB"]
    shown = look("get", job.name, "-o", "wide")
    assert "\nHIT RATIO: " in shown
    assert "\nSTALLED: " in shown
    shown = look("top", "job")
    assert shown.splitlines()[1].split()[-3:] == ["32", "32", chief.node_address]
    assert shown.endswith("Total Allocated/Requested GPUs of Training Jobs: 32/32\n")
    assert len(look("top", "job", job.name).splitlines()) == 1 + 5 + 3
    shown = look("top", "job", job.name, "-i", "worker-1")
    assert shown.splitlines()[1].split()[:2] == [f"{job.name}-worker-1", "RUNNING"]
    assert shown.endswith("Allocated/Requested GPUs of Job: 8/8\n")
    head, row = look("data", "list").splitlines()
    assert head.split() == ["NAME", "ACCESSMODE", "DESCRIPTION", "OWNER", "AGE", "CACHED"]
    assert row.startswith("imagenet ")
    assert row.endswith("%")


def test_a_job_goes_on_without_the_commands_that_follow_it_and_tells_its_end_later(machine: Machine) -> None:
    gate = machine.folder / "later"
    line = f"echo began; until [ -e {gate} ]; do sleep 0.1; done; exit"
    common = ("--workers=1", "--working-dir", str(machine.folder), "--wait")
    with (
        machine.beginning("submit", "mpi", "--name", "left", *common, f"{line} 3") as left,
        machine.beginning("submit", "mpi", "--name", "killed", *common, f"{line} 0") as killed,
    ):
        _read_until(left.stderr, "left: RUNNING")
        _read_until(killed.stderr, "killed: RUNNING")
        with machine.beginning("logs", "-f", "left") as reader:
            _read_until(reader.stdout, "began")
            reader.kill()
        killed.kill()
        # As a terminal does it: to all that the command has started.
        os.killpg(left.pid, signal.SIGINT)
        _, complaints = left.communicate(timeout=DEADLINE_S)
    assert left.returncode == 130
    assert "job left goes on; arena wait left waits for it again" in complaints
    with machine.beginning("wait", "left", "killed") as waiter:
        _read_until(waiter.stderr, "left: RUNNING")
        waiter.kill()
    assert [machine.view(name).phase for name in ("left", "killed")] == [JobPhase.RUNNING] * 2
    gate.touch()
    machine.arena("wait", "left", code=1)
    machine.arena("wait", "killed")
    assert machine.view("left").exit_code == 3
    told = machine.arena("prune", "--since", "0s")
    assert sorted(told.splitlines()) == [
        f'mpijob.kubeflow.org "{name}" deleted' for name in ("killed", "left")
    ]
    assert machine.jobs.jobs(None) == ()


def _read_until(lines: IO[str] | None, beginning: str) -> None:
    assert lines is not None
    seen = []
    for line in lines:
        if line.startswith(beginning):
            return
        seen.append(line)
    raise AssertionError(f"it ended without {beginning!r}: {seen}")


def test_a_job_that_loses_a_node_fails_or_begins_anew_on_others_as_it_was_told(machine: Machine) -> None:
    gate = machine.folder / "found"
    line = f"mpirun sh -c 'echo up; until [ -e {gate} ]; do sleep 0.1; done'"
    machine.submit(machine.spec("bereft", line, workers=1, selector={"disk": "none"}))
    machine.submit(machine.spec("moves", line, workers=3, slots=1, retries=1))
    for name in ("bereft", "moves"):
        machine.wait(name, JobPhase.RUNNING)
        machine.said(name, "up")
    assert {each.node for each in machine.view("moves").instances} == {"node-1", "node-2", "node-3"}
    remove_namespace(machine.namespace("node-3"))
    view = machine.wait("bereft", JobPhase.FAILED)
    # By whichever was seen first: the node, or what ran there, and that with the node's name still there or not.
    ends = "is gone with its node|is gone or not ready|was killed"
    assert re.fullmatch(rf"bereft-\S+( on|:) node-3 ({ends})", view.reason), view.reason
    assert [event.reason for event in view.events].count("Retrying") == 0

    def runs_elsewhere() -> bool:
        view = machine.view("moves")
        nodes = {each.node for each in view.instances}
        return view.phase is JobPhase.RUNNING and nodes == {"node-1", "node-2"}

    eventually(runs_elsewhere, lambda: (machine.view("moves"), machine.log("moves")))
    assert not machine.processes("bereft-worker-0")
    gate.touch()
    view = machine.wait("moves", JobPhase.SUCCEEDED)
    assert [event.reason for event in view.events if event.type == "Warning"] == ["Failed"]
    assert not machine.processes()
    machine.shell.must("up", "--nodes", "3")
    assert all(node.ready for node in machine.jobs.nodes())
    machine.delete("bereft")
    machine.delete("moves")


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
    with pytest.raises(TakenJobError, match="the job fails is already exist, please delete it first"):
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
