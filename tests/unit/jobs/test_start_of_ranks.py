"""The file by which `mpirun` starts its daemon on a worker, made and run by the shells that images have."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_jobs import mpi_spec

from headrace.jobs.mpi import mpi_job

STARTER = "/run/headrace-job/start"
TELL = "import json, os, sys; json.dump([dict(os.environ), sys.argv[1:]], sys.stdout)"
SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]
ODD = 'it\'s "odd"\n$HOME `id` \\ # ; ünï $(x)'


def worker_script(folder: Path) -> str:
    job = mpi_job(mpi_spec())
    script: str = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"][2]
    assert STARTER in script
    # As Kubernetes reads it.
    script = script.replace("$$", "$")
    # All but sshd itself, which has no business here.
    kept = script.replace("mkdir -p /run/sshd 2> /dev/null\n", "").partition("[ -e /etc/ssh")[0]
    return kept.replace(STARTER, str(folder / "start"))


def environment_of_a_rank(
    shell: str, folder: Path, container: dict[str, str], session: dict[str, str], *words: str
) -> tuple[dict[str, str], list[str]]:
    subprocess.run([shell, "-c", worker_script(folder)], env=container, check=True)
    answer = subprocess.run(
        [shell, str(folder / "start"), sys.executable, "-c", TELL, *words],
        env=session,
        stdout=subprocess.PIPE,
        check=True,
    )
    variables, arguments = json.loads(answer.stdout)
    return variables, arguments


@pytest.mark.parametrize("shell", SHELLS)
def test_a_rank_has_the_variables_of_the_container_and_the_words_of_mpirun(
    shell: str, tmp_path: Path
) -> None:
    container = {"PATH": "/opt/conda/bin:/usr/bin:/bin", "DATA_DIR": "/data", "ODD": ODD, "EMPTY": ""}
    session = {"PATH": "/opt/mpi/bin:/usr/bin", "LD_LIBRARY_PATH": "/opt/mpi/lib", "SSH_CONNECTION": "x"}
    variables, arguments = environment_of_a_rank(shell, tmp_path, container, session, "-mca", ODD)
    assert {name: variables[name] for name in ("DATA_DIR", "ODD", "EMPTY")} == {
        name: container[name] for name in ("DATA_DIR", "ODD", "EMPTY")
    }
    assert variables["PATH"] == "/opt/conda/bin:/usr/bin:/bin:/opt/mpi/bin:/usr/bin"
    assert "/opt/mpi/lib" in variables["LD_LIBRARY_PATH"].split(":")
    assert arguments == ["-mca", ODD]


def test_nobody_else_may_read_the_variables(tmp_path: Path) -> None:
    environment_of_a_rank("sh", tmp_path, {"PATH": "/usr/bin:/bin"}, {"PATH": "/usr/bin:/bin"})
    assert (tmp_path / "start").stat().st_mode & 0o077 == 0


@given(value=st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=25)
def test_no_value_is_changed_on_its_way_to_a_rank(value: str, tmp_path: Path) -> None:
    bare = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    variables, _ = environment_of_a_rank("sh", tmp_path, {**bare, "VALUE": value}, bare)
    assert variables["VALUE"] == value


AGENT = """#!/bin/sh
# As ssh: options, a host, words for a shell there, which begins with nothing of ours.
while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
shift
exec env -i PATH=/usr/bin:/bin sh -c "$*"
"""


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="Debian's openmpi-bin is not installed")
@pytest.mark.parametrize("flags", [(), ("--prefix", "/usr"), ("-x", "OTHER=1")])
def test_mpirun_as_a_script_types_it_starts_ranks_with_the_variables(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    """Costs a second: the one proof that Open MPI itself takes the words that a launcher gets."""
    (tmp_path / "bin").mkdir()
    agent = tmp_path / "bin" / "ssh"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    hosts = tmp_path / "hostfile"
    hosts.write_text("a-worker-0.a.default.svc slots=2\n")
    container = {"PATH": "/usr/bin:/bin", "DATA_DIR": ODD}
    subprocess.run(["sh", "-c", worker_script(tmp_path)], env=container, check=True)
    launcher = mpi_job(mpi_spec())["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    own = {each["name"]: each["value"].replace(STARTER, str(tmp_path / "start")) for each in launcher["env"]}
    # As the MPI operator adds them.
    operator = {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": str(hosts),
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
    }
    answer = subprocess.run(
        ["mpirun", *flags, sys.executable, "-c", "import os; print([os.environ['DATA_DIR']])"],
        env={**own, **operator},
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
        text=True,
    )
    assert answer.stdout.splitlines() == [repr([ODD])] * 2


# Each worker is asked for until it runs: here the second one at the third question.
KUBECTL = """#!/bin/sh
[ "$1" = exec ] && [ "$3 $4" = "-- true" ] || exit 64
echo "$2" >> asked
case $2 in *-1) [ "$(grep -c -- -1 asked)" -ge 3 ];; esac
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_launcher_of_v1_begins_once_all_workers_run_and_gets_its_words(shell: str, tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    words = (sys.executable, "-c", TELL, ODD)
    job = mpi_job(mpi_spec(name="old", command=words), "v1")
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
    script, *rest = (word.replace("$$", "$") for word in launcher[2:])
    script = script.replace("/opt/kube/kubectl", str(kubectl)).replace("sleep 1", "sleep 0.01")
    done = subprocess.run([shell, "-c", script, *rest], cwd=tmp_path, stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout)[1] == [ODD]
    asked = (tmp_path / "asked").read_text().split()
    assert asked == ["old-worker-0", *["old-worker-1"] * 3, "old-worker-2", "old-worker-3"]
