from __future__ import annotations

from pathlib import Path

import pytest
from resnet50.options import Options, read_options


def test_the_seeds_variables_are_honoured() -> None:
    given = {"DATA_DIR": "/data/imagenet", "num_batch": "1000", "datasets_num_private_threads": "8"}
    assert read_options([], given) == Options(
        Path("/data/imagenet"), num_batch=1000, datasets_num_private_threads=8
    )


def test_flags_come_before_variables() -> None:
    options = read_options(
        ["--num-batch", "5"], {"DATA_DIR": "/data", "num_batch": "1000", "slowdown": "2.5"}
    )
    assert (options.num_batch, options.slowdown) == (5, 2.5)


def test_the_folder_may_name_the_node() -> None:
    given = {"DATA_DIR": "/data/$HEADRACE_NODE/x", "HEADRACE_NODE": "node-3"}
    assert read_options([], given).data == Path("/data/node-3/x")


@pytest.mark.parametrize(
    ("words", "variables", "told"),
    [
        ([], {}, "DATA_DIR"),
        ([], {"DATA_DIR": "/data", "num_batch": "many"}, "many"),
        (["--num-batch", "-1"], {"DATA_DIR": "/data"}, "num_batch"),
        (["--slowdown", "0"], {"DATA_DIR": "/data"}, "slowdown"),
        (["--accelerators-per-rank", "8"], {"DATA_DIR": "/data"}, "one rank drives one accelerator"),
    ],
)
def test_a_bad_word_is_told_in_a_sentence(
    words: list[str], variables: dict[str, str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_options(words, variables)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
