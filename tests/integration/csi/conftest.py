"""A node whose driver runs, with a dataset of its own or one that tests share."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.harness import Shell
from integration.nodes import Node, node_at, until
from integration.survival import shell_without_server


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return _made_source(tmp_path / "source")


def _made_source(folder: Path) -> Path:
    (folder / "sub" / "deep").mkdir(parents=True)
    for number in range(8):
        content = random.Random(number).randbytes(700_000 + number * 100_000)
        (folder / f"part-{number:02}").write_bytes(content)
        (folder / "sub" / "deep" / f"leaf-{number}").write_bytes(content[:1000])
    (folder / "out").symlink_to("/etc")
    (folder / "in").symlink_to("sub/deep")
    return folder


@pytest.fixture
def flat(source: Path) -> Path:
    """A source that `readers` understands: files, and no folders."""
    folder = source.parent / "flat" / "source"
    folder.mkdir(parents=True)
    for file in source.glob("part-*"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return shell_without_server(tmp_path / "home")


@pytest.fixture
def node(tmp_path: Path, shell: Shell, source: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    """A node whose driver has the words that the test names."""
    with node_at(tmp_path / "machine", shell, source, *getattr(request, "param", ())) as node:
        yield node


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for the tests that leave it as they found it: a driver and a mount cost a second."""
    root = tmp_path_factory.mktemp("shared")
    shell = shell_without_server(root / "home")
    with node_at(root / "machine", shell, _made_source(root / "source")) as node:
        node.start_mount()
        yield node


@pytest.fixture
def read(tmp_path: Path, shell: Shell, flat: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    """A node whose dataset is published at `target`, in the mode of mounting that the test names."""
    with node_at(tmp_path / "machine", shell, flat) as node:
        node.mode = getattr(request, "param", "auto")
        node.start_mount()
        until(node.is_kept, node.talk)
        node.publish(node.root / "target")
        yield node
