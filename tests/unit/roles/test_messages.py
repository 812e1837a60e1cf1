from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from headrace.errors import BusyError, EngineError, RefusedError
from headrace.roles.messages import Answer, MountSpec, read_answer
from headrace.settings.dataset import MountSettings
from headrace.settings.engine import EngineConfig
from headrace.settings.origins import OriginMount, S3Origin


def spec() -> MountSpec:
    secret = S3Origin(bucket="b", access_key_id=SecretStr("i"), secret_access_key=SecretStr("PLANTED-SECRET"))
    config = EngineConfig(name="n", origins=(OriginMount(origin=secret),), state_directory=Path("/s"))
    return MountSpec(
        config=config,
        mountpoint=Path("/mnt"),
        settings=MountSettings(allow_other=True),
        registry_directory=Path("/run"),
        log_file=None,
    )


def test_orders_arrive_whole_and_their_memory_is_gone() -> None:
    descriptor = spec().to_descriptor()
    assert MountSpec.from_descriptor(descriptor) == spec()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_orders_have_no_name_in_any_file_system() -> None:
    descriptor = spec().to_descriptor()
    assert os.readlink(f"/proc/self/fd/{descriptor}").startswith("/memfd:")
    assert os.fstat(descriptor).st_nlink == 0
    os.close(descriptor)


def test_orders_do_not_show_credentials() -> None:
    assert "PLANTED" not in f"{spec()!r} {spec()} {spec().model_dump_json()}"


def sent(answer: Answer) -> Answer | None:
    reader, writer = os.pipe()
    answer.send(writer)
    return read_answer(reader)


def test_ready_answer_arrives() -> None:
    answer = sent(Answer(mode="classic", files=3, size_bytes=17))
    assert answer is not None
    assert answer.raise_if_failed().files == 3
    assert answer.exit_code == 0


def test_error_arrives_with_its_class_and_hint() -> None:
    answer = sent(Answer.of_error(RefusedError.of("no", hint="try")))
    assert answer is not None
    assert answer.exit_code == 5
    with pytest.raises(RefusedError, match="no") as caught:
        answer.raise_if_failed()
    assert caught.value.hint == "try"


def test_fault_of_ours_arrives_as_such() -> None:
    answer = sent(Answer.of_error(RuntimeError("x")))
    assert answer is not None
    with pytest.raises(EngineError, match="RuntimeError: x"):
        answer.raise_if_failed()


def test_process_that_ends_in_silence_gives_no_answer() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    assert read_answer(reader) is None


def test_starter_that_has_gone_does_not_end_the_mount() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    Answer.of_error(BusyError.of("x")).send(writer)
