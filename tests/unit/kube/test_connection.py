"""A kubeconfig that is none is told as such, without a word of what is in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.kube.connection import configuration, default_namespace

SECRET = "hunter2-of-the-cluster"
CONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: c, user: u, namespace: team}}}}]
clusters: [{{name: c, cluster: {{server: "https://198.18.0.1:6443"}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
"""


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        f"token: {SECRET}",
        f"users: [token: {SECRET}\n  x",
        f"just words {SECRET}",
        f"contexts: {SECRET}\ncurrent-context: {SECRET}",
        "contexts: [{name: a}]\ncurrent-context: a",
        "contexts: [{name: a, context: {cluster: c, user: u}}]\ncurrent-context: a\nclusters: []\nusers: []",
    ],
)
def test_a_file_that_is_no_kubeconfig_is_a_configuration_error(content: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        asyncio.run(configuration(str(file)))
    assert SECRET not in str(caught.value)


def test_a_kubeconfig_is_read(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(CONFIG.format(token=SECRET))
    assert asyncio.run(configuration(str(file))).host == "https://198.18.0.1:6443"
    assert default_namespace(str(file)) == "team"
