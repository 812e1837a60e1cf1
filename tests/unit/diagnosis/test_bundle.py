"""`headrace support-bundle` with credentials planted wherever a user or a program may leave them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
import tarfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.cli.main import main
from headrace.diagnosis.bundle import cluster_material, writing
from headrace.diagnosis.bundle.redaction import Redactor
from headrace.diagnosis.bundle.tails import tail
from headrace.engine.registry import Registry
from headrace.engine.registry_entry import own_entry
from headrace.errors import BusyError, HeadraceError, RefusedError
from headrace.kube.client import KubeClient
from headrace.settings.environment import Environment


class Planted:
    """Makes credentials, each told from the others."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def new(self) -> str:
        self.all.append(f"zq{len(self.all):02}Xk7wPlantedCredential")
        return self.all[-1]

    def left_in(self, text: str) -> list[str]:
        forms = {each: (each, base64.b64encode(each.encode()).decode()) for each in self.all}
        return [each for each, told in forms.items() if any(form in text for form in told)]


def texts_of(bundle: Path) -> dict[str, str]:
    with tarfile.open(bundle) as archive:
        return {
            member.name.partition("/")[2]: archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive
        }


def test_no_planted_credential_is_in_the_bundle_of_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private_environment: Path
) -> None:
    planted, home = Planted(), Path(os.environ["HOME"])
    for name in (
        "HEADRACE_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "OSS_ACCESS_KEY_SECRET",
        "DB_PASSWORD",
    ):
        monkeypatch.setenv(name, planted.new())
    monkeypatch.setenv("https_proxy", f"http://user:{planted.new()}@proxy.example:3128")
    files = {name: tmp_path / name for name in ("config.toml", "keys", "token", "log")}
    files["keys"].write_text(f"fs.oss.accessKeySecret={planted.new()}\n")
    files["token"].write_text(planted.new())
    options = f'"fs.s3.secret-key" = "{planted.new()}"\nregion = "r"\n'
    config = f'[dataset]\nname = "shown"\nsecret_file = "{files["keys"]}"\n[dataset.options]\n{options}'
    files["config.toml"].write_text(config)
    monkeypatch.setenv("HEADRACE_CONFIG", str(files["config.toml"]))
    monkeypatch.setenv("HEADRACE_TOKEN_FILE", str(files["token"]))
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "credentials").write_text(f"[default]\naws_secret_access_key = {planted.new()}\n")
    # What is known only from its place is said by a program without a name beside it.
    bare = [f"said {each}, and {base64.b64encode(each.encode()).decode()}" for each in planted.all]
    files["config.toml"].write_text(f"{config}# password: {planted.new()}\n")
    headers = [
        f"authorization: AWS4 {planted.new()}",
        f"x-amz-security-token: {planted.new()}",
        f"Bearer {planted.new()}",
    ]
    files["log"].write_text("\n".join(["begins", *bare, *headers, f"http://u:{planted.new()}@host/", "ends"]))
    registry = Registry(Environment.current().runtime_directory)
    origins = (f"https://u:{planted.new()}@host/x",)
    registry.add(
        own_entry(
            name="x",
            mountpoint="/mnt/x",
            state_directory=str(tmp_path),
            origins=origins,
            mode="classic",
            log_file=str(files["log"]),
        )
    )
    target = tmp_path / "bundle.tar.gz"
    assert main(["support-bundle", "--file", str(target)]) == 0
    texts = texts_of(target)
    for name, text in texts.items():
        assert planted.left_in(text) == [], name
    assert planted.left_in("\n".join(texts)) == []
    log = texts["mounts/0/log.txt"]
    assert log.startswith("begins") and log.endswith("ends")
    assert "shown" in texts["configuration/config.toml"] and "/mnt/x" in texts["mounts/0/entry.json"]
    manifest = json.loads(texts["manifest.json"])
    assert {each["name"] for each in manifest["contents"]} == set(texts) - {"manifest.json"}
    assert "mounts/0/status.json" in {each["name"] for each in manifest["left_out"]}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert main(["support-bundle", "--file", str(target)]) != 0  # what is there stays


PODS = "app.kubernetes.io/name"


class Client:
    """An API server whose objects and logs hold what they should not."""

    def __init__(self, planted: Planted) -> None:
        self.planted = planted
        self.asked: list[str] = []

    async def list(
        self, kind: str, namespace: str | None = None, labels: object = None
    ) -> list[dict[str, Any]]:
        self.asked.append(kind)
        if kind == "DataLoad":
            raise RefusedError.of("dataloads is forbidden")
        new = self.planted.new
        applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"password": new()})}
        metadata = {
            "name": f"{kind}-1".lower(),
            "namespace": "n",
            "annotations": {**applied, "note": f"token={new()}"},
        }
        env = [{"name": "AWS_SECRET_ACCESS_KEY", "value": new()}]
        args = [f"--secret-key={new()}", f"https://u:{new()}@host/"]
        spec = {
            "containers": [{"name": "main", "env": env, "args": args}],
            "mounts": [{"mountPoint": "s3://b", "options": {"aws.secretKey": new()}}],
            "versions": [],
        }
        status = {"containerStatuses": [{"name": "main", "restartCount": 1}]}
        message = f"Authorization: Bearer {new()}"
        return [{"kind": kind, "metadata": metadata, "spec": spec, "status": status, "message": message}]

    async def stream(
        self, path: str, what: str, query: Mapping[str, str], *, timeout_s: float
    ) -> AsyncIterator[bytes]:
        yield f"{path} begins\nsecret_key: {self.planted.new()}\n".encode()


def test_no_planted_credential_is_in_the_bundle_of_a_cluster(tmp_path: Path) -> None:
    planted, target = Planted(), tmp_path / "b.tar.gz"
    client = Client(planted)
    with writing.writing(target, Redactor()) as bundle:
        asyncio.run(cluster_material.collect(bundle, cast(KubeClient, client), ["n"]))
        bundle.finish("0.1.0")
    texts = texts_of(target)
    assert planted.left_in("\n".join(texts.values())) == []
    assert not {"Secret", "ConfigMap"} & set(client.asked)
    assert {
        "kubernetes/n/Dataset.json",
        "kubernetes/n/Event.json",
        "logs/n/pod-1/main-previous.txt",
    } <= texts.keys()
    assert "kubernetes/n/DataLoad.json" in {
        each["name"] for each in json.loads(texts["manifest.json"])["left_out"]
    }


@pytest.mark.parametrize("error", [KeyboardInterrupt(), HeadraceError.of("no"), SystemExit(143)])
@pytest.mark.parametrize("has_unnamed", [True, False])
def test_a_bundle_that_is_interrupted_leaves_nothing(
    tmp_path: Path, error: BaseException, has_unnamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_unnamed:
        monkeypatch.setattr(
            os, "O_TMPFILE", os.O_DIRECTORY | os.O_RDWR
        )  # as a file system that has none answers
    with pytest.raises(type(error)), writing.writing(tmp_path / "b.tar.gz", Redactor()) as bundle:
        bundle.add_text("a", "text", "about")
        raise error
    assert list(tmp_path.iterdir()) == []
    with writing.writing(tmp_path / "b.tar.gz", Redactor()) as bundle:
        bundle.add_text("a", "text", "about")
    assert [each.name for each in tmp_path.iterdir()] == ["b.tar.gz"]


def test_what_is_there_is_not_written_over_though_it_came_meanwhile(tmp_path: Path) -> None:
    target = tmp_path / "b.tar.gz"
    with pytest.raises(BusyError), writing.writing(target, Redactor()):
        target.write_text("somebody's")
    assert target.read_text() == "somebody's"


def test_a_bundle_has_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_BYTES", 150)
    monkeypatch.setattr(writing, "MOST_FILE_BYTES", 100)
    with writing.writing(tmp_path / "b.tar.gz", Redactor()) as bundle:
        bundle.add_text("../long", "begin" + "x" * 200 + "end", "about")
        bundle.add_text("second", "y" * 90, "about")
        bundle.add_value("third", ["z" * 500], "about")
        bundle.finish("0.1.0")
    texts = texts_of(tmp_path / "b.tar.gz")
    assert (
        set(texts) == {"long", "manifest.json"}
        and len(texts["long"]) == 100
        and texts["long"].endswith("end")
    )
    manifest = json.loads(texts["manifest.json"])
    assert manifest["contents"][0]["is_cut"] and {each["name"] for each in manifest["left_out"]} == {
        "second",
        "third",
    }


def test_only_the_end_of_plain_files_is_read(tmp_path: Path) -> None:
    log, link, pipe = tmp_path / "log", tmp_path / "link", tmp_path / "pipe"
    log.write_text("first\nsecond\nthird\n")
    link.symlink_to(log)
    os.mkfifo(pipe)
    assert tail(log, 10) == "third\n"
    assert tail(log, 100) == "first\nsecond\nthird\n"
    with pytest.raises(OSError):
        tail(link, 10)
    with pytest.raises(ValueError):
        tail(pipe, 10)
