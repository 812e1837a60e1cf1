"""Images of the test cluster: what the archive says is what was put in."""

import hashlib
import json
import tarfile
from pathlib import Path

from headrace.testing.kubernetes.images import image_identity, image_tar
from headrace.testing.kubernetes.next_image import next_image


def _layer(folder: Path, name: str, content: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / name).write_text(content)
    (folder / "bin" / name).chmod(0o755)
    (folder / "link").symlink_to(f"bin/{name}")
    return folder


def _read(path: Path) -> tuple[dict, dict, list[bytes]]:
    with tarfile.open(path) as archive:
        (manifest,) = json.load(archive.extractfile("manifest.json"))
        layers = [archive.extractfile(name).read() for name in manifest["Layers"]]
        return manifest, json.load(archive.extractfile(manifest["Config"])), layers


def test_an_image_names_its_layers_in_order_by_their_digests(tmp_path):
    one, two = _layer(tmp_path / "one", "a", "1"), _layer(tmp_path / "two", "b", "2")
    path = image_tar(
        "headrace/engine", "1.2", [one, two], to=tmp_path / "out" / "image.tar", entrypoint=["/bin/a"]
    )
    manifest, configuration, layers = _read(path)
    assert manifest["RepoTags"] == ["docker.io/headrace/engine:1.2"]
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    assert configuration["rootfs"]["diff_ids"] == digests
    assert len(set(digests)) == 2
    assert configuration["config"]["Entrypoint"] == ["/bin/a"]


def test_a_layer_keeps_modes_and_links(tmp_path):
    path = image_tar("localhost/tiny", "1", [_layer(tmp_path / "root", "a", "1")], to=tmp_path / "image.tar")
    manifest, _, _ = _read(path)
    assert manifest["RepoTags"] == ["localhost/tiny:1"]
    with (
        tarfile.open(path) as archive,
        tarfile.open(fileobj=archive.extractfile(manifest["Layers"][0])) as layer,
    ):
        assert layer.getmember("bin/a").mode == 0o755
        assert layer.getmember("link").linkname == "bin/a"


def test_the_same_content_gives_the_same_bytes_and_nothing_is_left_beside_it(tmp_path):
    root = _layer(tmp_path / "root", "a", "1")
    first = image_tar("x", "1", [root], to=tmp_path / "first" / "image.tar", env={"A": "b"})
    second = image_tar("x", "1", [root], to=tmp_path / "second" / "image.tar", env={"A": "b"})
    assert first.read_bytes() == second.read_bytes()
    assert [each.name for each in (tmp_path / "first").iterdir()] == ["image.tar"]


def test_a_tar_is_taken_as_it_is_and_two_of_the_same_are_stored_once(tmp_path):
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as archive:
        archive.addfile(tarfile.TarInfo("empty"))
    path = image_tar("x", "1", [layer, layer], to=tmp_path / "image.tar")
    _, configuration, layers = _read(path)
    assert layers == [layer.read_bytes()] * 2
    assert len(configuration["rootfs"]["diff_ids"]) == 2
    with tarfile.open(path) as archive:
        assert len([name for name in archive.getnames() if name.endswith("layer.tar")]) == 1


def test_an_image_is_known_by_its_names_and_its_content(tmp_path):
    first = image_tar("headrace/engine", "1", [_layer(tmp_path / "one", "a", "1")], to=tmp_path / "1.tar")
    again = image_tar("headrace/engine", "1", [tmp_path / "one"], to=tmp_path / "2.tar")
    assert image_identity(first) == image_identity(again)
    other = image_tar("headrace/engine", "1", [_layer(tmp_path / "two", "a", "2")], to=tmp_path / "3.tar")
    assert image_identity(first)[0] == ("docker.io/headrace/engine:1",)
    assert image_identity(first) != image_identity(other)


def test_the_next_version_of_an_image_is_known_by_its_own_name_and_content(tmp_path):
    image = image_tar("headrace/engine", "1", [_layer(tmp_path / "one", "a", "1")], to=tmp_path / "1.tar")
    following = next_image(image, "2", {"/etc/note": b"more"}, to=tmp_path / "2.tar")
    other = next_image(image, "2", {"/etc/note": b"other"}, to=tmp_path / "3.tar")
    assert image_identity(following)[0] == ("docker.io/headrace/engine:2",)
    assert len({image_identity(each)[1] for each in (image, following, other)}) == 3
