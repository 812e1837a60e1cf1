from __future__ import annotations

import json
import subprocess
import sys

PROBE = """
import json, sys, threading
before = set(sys.modules)
import headrace
print(json.dumps({"modules": sorted(set(sys.modules) - before), "threads": threading.active_count()}))
"""


def test_import_is_light() -> None:
    """One subprocess: only a fresh interpreter shows what an import brings along."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["threads"] == 1
    heavy = (
        "headrace._native",
        "torch",
        "tensorflow",
        "kubernetes",
        "kubernetes_asyncio",
        "numpy",
        "fsspec",
        "pydantic",
        "typer",
    )
    assert [name for name in found["modules"] if name.startswith(heavy)] == []


def test_every_public_name_is_there() -> None:
    import headrace

    for name in headrace.__all__:
        assert getattr(headrace, name).__name__ == name
    assert sorted(headrace.__all__) == dir(headrace)
