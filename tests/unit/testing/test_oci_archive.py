"""Images as archives of the OCI: what the index names is what is inside, and the same content is the same image."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
from pathlib import Path

from headrace.testing.kubernetes.images import folder_tar, image_identity, run_settings
from headrace.testing.kubernetes.oci_archive import oci_archive


def _layer(folder: Path, content: str) -> Path:
    folder.mkdir()
    (folder / "note").write_text(content)
    return folder


def _blob(archive: tarfile.TarFile, descriptor: dict) -> bytes:
    """The content of a descriptor, which has to be what the descriptor says."""
    digest = descriptor["digest"].removeprefix("sha256:")
    content = archive.extractfile(f"blobs/sha256/{digest}").read()
    assert hashlib.sha256(content).hexdigest() == digest
    assert len(content) == descriptor["size"]
    return content


def test_an_archive_leads_from_its_index_to_every_layer(tmp_path: Path) -> None:
    layers = [_layer(tmp_path / "one", "1"), _layer(tmp_path / "two", "2")]
    runs = run_settings(entrypoint=["/bin/a"], user="1:1", labels={"org.opencontainers.image.version": "1.2"})
    path = tmp_path / "out" / "image.tar"
    digest = oci_archive("registry.example.com/team/engine", "1.2", layers, runs, to=path)
    with tarfile.open(path) as archive:
        assert json.load(archive.extractfile("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
        (entry,) = json.load(archive.extractfile("index.json"))["manifests"]
        assert entry["digest"] == digest
        assert entry["annotations"]["io.containerd.image.name"] == "registry.example.com/team/engine:1.2"
        manifest = json.loads(_blob(archive, entry))
        configuration = json.loads(_blob(archive, manifest["config"]))
        plain = [gzip.decompress(_blob(archive, each)) for each in manifest["layers"]]
    assert configuration["rootfs"]["diff_ids"] == [
        f"sha256:{hashlib.sha256(each).hexdigest()}" for each in plain
    ]
    assert configuration["config"]["Entrypoint"] == ["/bin/a"]
    assert configuration["config"]["User"] == "1:1"
    assert configuration["config"]["Labels"] == {"org.opencontainers.image.version": "1.2"}


def test_the_same_content_is_the_same_image_under_any_name_and_at_any_time(tmp_path: Path) -> None:
    first = folder_tar(_layer(tmp_path / "one", "1"), tmp_path / "one.tar", changed_s=0)
    os.utime(tmp_path / "one" / "note", (1_700_000_000, 1_700_000_000))
    second = folder_tar(tmp_path / "one", tmp_path / "two.tar", changed_s=0)
    one = oci_archive("headrace/engine", "1", [first], run_settings(), to=tmp_path / "1.tar")
    two = oci_archive("headrace/engine", "1", [second], run_settings(), to=tmp_path / "2.tar")
    assert one == two
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()
    other = oci_archive("example.com/engine", "2", [first], run_settings(), to=tmp_path / "3.tar")
    assert other == one
    assert sorted(each.name for each in tmp_path.glob("*.tar")) == [
        "1.tar",
        "2.tar",
        "3.tar",
        "one.tar",
        "two.tar",
    ]


def test_an_image_is_known_to_a_cluster_of_the_tests_by_its_name_and_digest(tmp_path: Path) -> None:
    digest = oci_archive(
        "headrace/engine", "1", [_layer(tmp_path / "one", "1")], run_settings(), to=tmp_path / "i.tar"
    )
    assert image_identity(tmp_path / "i.tar") == (("docker.io/headrace/engine:1",), digest)
