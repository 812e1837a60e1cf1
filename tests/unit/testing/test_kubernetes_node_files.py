"""The configuration of a node that runs is written again only where it is another."""

from __future__ import annotations

import os
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from headrace.testing.kubernetes.certificates import Authority
from headrace.testing.kubernetes.layout import Addresses, Layout, Plan
from headrace.testing.kubernetes.node_files import write_node_files

# kube-proxy ends when its file is written, whatever with; a node is started again while it runs.
WATCHED = "kube-proxy.json"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    authority = Authority(made.certificates)
    authority.issue("node-1", "system:node:node-1")
    authority.issue("kube-proxy", "system:kube-proxy")
    return made


def _plan(subnet: str) -> Plan:
    return Plan(Addresses(IPv4Network(subnet)), nodes=1)


def test_what_is_there_is_left_alone(layout: Layout) -> None:
    write_node_files(layout, _plan("198.18.0.0/20"), 1)
    file = layout.node_folder("node-1") / WATCHED
    os.utime(file, ns=(1, 1))
    write_node_files(layout, _plan("198.18.0.0/20"), 1)
    assert file.stat().st_mtime_ns == 1, "kube-proxy was told to end"


def test_what_is_another_is_written(layout: Layout) -> None:
    write_node_files(layout, _plan("198.18.0.0/20"), 1)
    file = layout.node_folder("node-1") / WATCHED
    before = file.read_text()
    write_node_files(layout, _plan("198.18.16.0/20"), 1)
    assert file.read_text() != before
