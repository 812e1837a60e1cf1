"""The list of findings: each script stands in it once, can be run, and says when it ends well."""

from __future__ import annotations

import os
import re
from pathlib import Path

FINDINGS = Path(__file__).parents[3] / "findings"
SCRIPTS = sorted(path.name for path in FINDINGS.glob("*.sh"))


def test_every_script_is_listed_once() -> None:
    listed = re.findall(r"^\| \[(\S+)\]\((\S+)\) \|", (FINDINGS / "README.md").read_text(), re.MULTILINE)
    assert all(shown == target for shown, target in listed)
    assert sorted(target for _, target in listed) == SCRIPTS


def test_every_script_can_be_run_and_says_what_it_needs() -> None:
    for name in SCRIPTS:
        text = (FINDINGS / name).read_text()
        assert os.access(FINDINGS / name, os.X_OK), name
        assert "set -euo pipefail" in text, name
        assert "# Needs " in text, name
        assert "Exits 0 while this is so." in text, name
