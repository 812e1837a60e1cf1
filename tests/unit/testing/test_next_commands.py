"""The commands that follow `make cluster`: those of the page, and for a shell."""

from __future__ import annotations

import subprocess
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from charts import ROOT, helm

from headrace.testing.kubernetes.cluster import Cluster
from headrace.testing.kubernetes.layout import Addresses, Layout, Plan
from headrace.testing.kubernetes.next_commands import explained, next_commands


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """One that does not run, whose folder takes quoting."""
    monkeypatch.chdir(ROOT)
    # Where helm is, wherever the home of this test is.
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path(helm()).parents[2]))
    folder = tmp_path / "a folder"
    folder.mkdir()
    return Cluster(Layout(folder), Plan(Addresses(IPv4Network("10.1.0.0/20")), 2))


def test_the_page_has_them(cluster: Cluster) -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    folder = f"'{cluster.folder}"
    for command in next_commands(cluster):
        shown = command.replace(f"{folder}/bin'", "FOLDER/bin").replace(
            f"{folder}/kubeconfig'", "FOLDER/kubeconfig"
        )
        assert f"\n    {shown}\n" in page


def test_a_shell_finds_helm_and_the_chart_by_them(cluster: Cluster) -> None:
    export, install, _ = next_commands(cluster)
    shown = install.replace("helm install headrace", "helm template headrace")
    script = f"{export}\n{shown} | grep -c 'headrace/[a-z]*:test'\nprintf '%s\\n' \"$KUBECONFIG\""
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=True, cwd=ROOT)
    count, kubeconfig = done.stdout.splitlines()
    assert int(count) >= 4, "the images that the nodes hold"
    assert kubeconfig == str(cluster.kubeconfig)
    assert (cluster.folder / "bin" / "kubectl").readlink().name == "kubectl"


def test_what_is_no_command_is_a_comment(cluster: Cluster) -> None:
    lines = explained(cluster).splitlines()
    assert [line for line in lines if not line.startswith("#")] == list(next_commands(cluster))
    assert cluster.host_address in lines[-1]
