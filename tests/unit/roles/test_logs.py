from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WRITER = """
import os, sys
from pathlib import Path
from headrace.roles.logs import LogFile
log = LogFile(Path(sys.argv[1]), largest_bytes=1000, kept=2)
log.begin()
for number in range(6):
    os.write(2, f"{number}".encode() * 600)
    print(f"python {number}", flush=True)
    log.rotate_if_large()
os.remove(sys.argv[1])
log.rotate_if_large()
os.write(2, b"after removal")
"""


def test_log_is_begun_anew_under_writers_that_do_not_know(tmp_path: Path) -> None:
    """In a process of its own: descriptors 1 and 2 of the test run stay as they are."""
    file = tmp_path / "logs" / "mount.log"
    subprocess.run([sys.executable, "-c", WRITER, str(file)], check=True)
    assert sorted(path.name for path in file.parent.iterdir()) == ["mount.log", "mount.log.1", "mount.log.2"]
    assert file.read_text() == "after removal"
    assert file.with_name("mount.log.1").read_text() == "4" * 600 + "python 4\n" + "5" * 600 + "python 5\n"
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in file.parent.iterdir())
