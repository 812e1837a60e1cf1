"""Many processes read at random while the cache is worked on, again and again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.harness import Shell
from tests.integration.servers import Bucket
from tests.integration.test_random_reads import read_while_it_is_worked_on


@pytest.mark.parametrize("mode", ["passthrough", "elide", "classic"])
def test_every_random_read_of_many_processes_is_right(
    shell: Shell, tmp_path: Path, mode: str, bucket: Bucket
) -> None:
    read_while_it_is_worked_on(shell, tmp_path, mode, bucket, readers=4, rounds=2)
