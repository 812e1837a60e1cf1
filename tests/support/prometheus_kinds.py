"""The kinds of the Prometheus operator, of its Go module, pinned by tools/prometheus-operator: none is copied here."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path

from charts import ROOT

_MODULE = "github.com/prometheus-operator/prometheus-operator"
# As the tests were started: each has a home of its own, where the module would be fetched again.
_ENVIRONMENT = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/local/go/bin"}


@functools.cache
def kinds_folder() -> Path:
    """The folder with the CRDs, fetched when it is not there yet."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", _MODULE],
        cwd=ROOT / "tools" / "prometheus-operator",
        env=_ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(json.loads(done.stdout)["Dir"]) / "example" / "prometheus-operator-crd"


def kind_file(plural: str) -> Path:
    """The CRD of `servicemonitors`, for example."""
    return kinds_folder() / f"monitoring.coreos.com_{plural}.yaml"
