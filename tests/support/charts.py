"""The chart of deploy/chart as helm renders it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
NAMESPACE = "headrace-system"
# As the tests were started: each has a home of its own, where helm would be built again.
_ENVIRONMENT = dict(os.environ)

Content = dict[str, Any]

EVERY_OPTION: Content = {
    "image": {"pullSecrets": ["registry-keys"], "operator": {"tag": "test"}, "engine": {"tag": "test"}},
    "operator": {
        "podAnnotations": {"example.com/note": "yes"},
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "pool", "operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
        "affinity": {"podAntiAffinity": {}},
    },
    "openTelemetry": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector.monitoring:4318"},
    "monitoring": {
        "monitors": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True, "annotations": {"folder": "Data"}},
    },
    "jindofs": {
        "enabled": True,
        "namespaces": {
            "test": {
                "uri": "oss://bucket.oss-cn-shanghai-internal.aliyuncs.com/prefix",
                "credentials": {"fs.oss.accessKeyId": "id", "fs.oss.accessKeySecret": "keys are secret"},
            },
            "more_Data": {
                "uri": "s3://bucket/prefix",
                "options": {"endpoint": "http://10.0.0.1:9000"},
                "existingSecret": "keys",
            },
        },
        "master": {"storageSize": "1Gi", "storageClassName": "fast"},
        "worker": {
            "cache": [
                {"path": "/dev/shm/headrace", "quota": "1Gi", "medium": "MEM"},
                {"path": "/ssd/headrace", "quota": "60%", "medium": "SSD"},
            ]
        },
    },
}
"""Values that switch everything on."""


@functools.cache
def helm() -> str:
    """The program, built when it is not there yet (minutes, once a machine)."""
    command = [ROOT / "tools" / "install_helm.sh"]
    done = subprocess.run(command, env=_ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run_helm(*words: str, values: Content | None = None) -> subprocess.CompletedProcess[str]:
    """What helm said; the values are given as a file is, by standard input."""
    given = ["--values", "-"] if values is not None else []
    return subprocess.run(
        [helm(), *words, *given], input=json.dumps(values or {}), capture_output=True, text=True, check=False
    )


def template(values: Content | None = None, *words: str) -> str:
    """The chart's text with these values."""
    done = run_helm("template", "headrace", str(CHART), "--namespace", NAMESPACE, *words, values=values or {})
    assert done.returncode == 0, done.stderr
    return done.stdout


def render(values: Content | None = None) -> list[Content]:
    """The chart's objects with these values."""
    return [each for each in yaml.load_all(template(values), yaml.CSafeLoader) if each]


def named(objects: list[Content], kind: str, name: str) -> Content:
    """The one object of this kind and name."""
    (found,) = (each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


def refusal(values: Content) -> str:
    """Why helm refuses these values; empty when it does not."""
    done = run_helm("template", "headrace", str(CHART), "--namespace", NAMESPACE, values=values)
    return done.stderr if done.returncode else ""


TEST_VALUES: Content = {
    # The images that `headrace.testing.kubernetes.build_images` makes.
    "image": {
        "operator": {"tag": "test", "pullPolicy": "Never"},
        "engine": {"tag": "test", "pullPolicy": "Never"},
    },
    # On a busy machine two seconds pass before the webhook has its turn, and the pod is created without it.
    "webhook": {"timeoutSeconds": 10},
    # What `every_field` puts into pods, and folders of the tests.
    "policy": {
        "cacheFolders": [
            *("/run/headrace/memory", "/dev/shm", "/var/lib/cache", "/var/lib/cache2"),
            *("/var/lib/docker/alluxio", "/var/lib/docker/jindo"),
        ],
        "backupFolders": ["/var/lib/kubernetes-test-backups"],
        "environment": ["EXAMPLE"],
        "volumes": ["emptyDir"],
        "volumePaths": ["/extra"],
        "podMetadata": ["example.com"],
        "tolerations": ["example"],
    },
}
"""Values for a cluster of the tests."""


class Release:
    """The chart on a cluster, installed and upgraded by the real helm."""

    def __init__(self, kubeconfig: Path, values: Content = TEST_VALUES) -> None:
        self.kubeconfig = kubeconfig
        self._values = values

    def install(self, values: Content | None = None) -> None:
        """Installs it, or upgrades it; also over kinds that `kubectl apply` brought."""
        words = ("upgrade", "--install", "--create-namespace", "--take-ownership", "--force-conflicts")
        self._run(*words, "headrace", str(CHART), values=self._values | (values or {}))

    def roll_back(self) -> None:
        """Takes back the last upgrade."""
        self._run("rollback", "headrace")

    def uninstall(self) -> None:
        """Takes it away, if it is there."""
        self._run("uninstall", "headrace", "--ignore-not-found", "--wait", "--timeout=300s")

    def _run(self, *words: str, values: Content | None = None) -> None:
        place = ("--kubeconfig", str(self.kubeconfig), "--namespace", NAMESPACE)
        done = run_helm(*words, *place, values=values)
        assert done.returncode == 0, done.stderr
