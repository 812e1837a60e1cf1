from __future__ import annotations

from headrace.local.processes.log_rotation import trim


def test_a_large_log_moves_aside_and_its_writer_goes_on(tmp_path) -> None:
    path = tmp_path / "role.log"
    with path.open("ab", buffering=0) as log:
        log.write(b"x" * 100)
        assert not trim(path, largest_bytes=100)
        log.write(b"y")
        assert trim(path, largest_bytes=100)
        log.write(b"next\n")
    assert path.read_bytes() == b"next\n"
    assert (tmp_path / "role.log.1").read_bytes() == b"x" * 100 + b"y"
    assert not trim(tmp_path / "none.log")
