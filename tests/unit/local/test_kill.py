"""A process that changes objects is killed at any moment: what it has acknowledged is there, the rest is whole."""

from __future__ import annotations

import random
import subprocess
import sys
import time

from headrace.local.store.database import Database
from headrace.local.store.object_store import Selection, Store
from headrace.local.store.records import Reference

ROUNDS = 8
PROGRAM = """
import sys
from pathlib import Path
from headrace.local.store.database import Database
from headrace.local.store.records import Reference
from headrace.local.store.object_store import Store

store = Store(Database(Path(sys.argv[1])))
for number in range(int(sys.argv[2]), 10**9):
    with store.changing() as writer:
        for part in "ab":
            writer.create(Reference("Dataset", "default", f"d{number}{part}"), {"spec": {"mounts": []}})
    print(number, flush=True)
"""


def test_no_acknowledged_change_is_lost(tmp_path) -> None:
    """Costs seconds: only a real process can be killed between any two of its instructions."""
    path, random_, next_number = tmp_path / "objects.db", random.Random(5), 0
    for _ in range(ROUNDS):
        command = [sys.executable, "-c", PROGRAM, str(path), str(next_number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            first = process.stdout.readline()
            time.sleep(random_.uniform(0, 0.05))
            process.kill()
            acknowledged = [int(line) for line in [first, *process.stdout] if line.endswith("\n")]
        database = Database(path)
        store = Store(database)
        names = {record.reference.name for record in store.select(Selection(("Dataset",)))[0]}
        for number in range(acknowledged[-1] + 1):
            assert store.get(Reference("Dataset", "default", f"d{number}a")) is not None
        # The two of one transaction are there together, or neither is.
        assert {name[:-1] for name in names if name.endswith("a")} == {
            name[:-1] for name in names if name.endswith("b")
        }
        next_number = len(names) // 2
        assert store.select(Selection(("Dataset",)))[1] == len(names)
        database.close()
