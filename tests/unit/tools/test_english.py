from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tools import english


def faults(code: str, glossary: str = "") -> list[str]:
    words = english.glossary_words(glossary)
    return [fault for text in english.texts(ast.parse(code)) for fault in english.faults(text, words)]


@pytest.mark.parametrize(
    "code",
    [
        '"""What befell a pod."""',
        '"""Notes of a pod. Who reads them sees all."""',
        '"""Notes of a pod.\n\nWhoever reads them sees all.\n"""',
        '"""Notes of a pod.\n\n- Whether it runs.\n"""',
        'class Pod:\n    """Whether it runs."""',
        'class Pod:\n    def name(self):\n        """What it is called."""',
        'async def name():\n    """That which it is called by."""',
        'def name():\n    """Where it lies."""',
        'def name():\n    """The place. `None`: none. What is there stays."""',
        'Option(help="Whose files go.")',
        'Option(help="How long to wait.")',
        'Option(help=f"How many {things}.")',
        'Field(description="When it was " "made")',
        'flag("--retry", int, "How often it is tried again.")',
        'raise ConfigError("whether " + what)\nConfigError.of("which one?", hint="x")',
        'ConfigError.of(f"{address}: what answers is no server")',
        'errors.ConfigError.of("nothing", hint="what lies there is looked at")',
    ],
)
def test_a_text_that_begins_with_a_clause_is_a_fault(code: str) -> None:
    assert len(faults(code)) == 1


@pytest.mark.parametrize(
    "code",
    [
        '"""Why a pod was evicted, preempted or lost."""',
        '"""How a pass is ordered."""',
        '"""Notes of a pod. Where a disk is full, and when a node restarts, they are kept."""',
        '"""Notes of a pod, and what came of it, e.g. what it read."""',
        '"""What now?"""',
        '"""`what` of a pod."""',
        'def name():\n    """Whatsoever."""',
        'def _name():\n    """What it is called."""',
        'class _Pod:\n    def name(self):\n        """What it is called."""',
        'def name():\n    def inner():\n        """What it is called."""',
        'ConfigError.of(f"{name} is what a person wrote")',
        'ConfigError.of("is not a size", hint="which one?")',
        'Reference.of("what")',
        'log.info("what was done")',
        "ConfigError.of(message, hint=hint)",
    ],
)
def test_a_noun_a_verb_a_title_or_a_question_is_none(code: str) -> None:
    assert faults(code) == []


def test_a_private_word_is_a_noun_of_the_glossary_or_none() -> None:
    code = '"""The snapshots on the shelf, and its two shelves."""'
    assert len(faults(code)) == 1
    assert faults(code, "| word | meaning |\n|---|---|\n| shelf (of a master) | its snapshots |\n") == []
    assert len(faults(code, "| word | meaning |\n|---|---|\n| snapshot | what stands on a shelf |\n")) == 1


def test_a_private_word_is_free_as_another_part_of_speech_and_as_code() -> None:
    assert faults('"""Nodes that people wish for, taken apart. The `wish` is theirs, no doubt."""') == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("//! Whether a disk hangs: nothing\n//! returns.\n\nuse std::fs;\n", 1),
        ("//! Pages in memory. What is\n//! read stays.\n//!\n//! Whoever reads waits.\n", 2),
        ("//! Pages in memory: what is read stays.\n\n/// What a page holds.\nstruct Page;\n", 0),
        ("use std::fs;\n", 0),
    ],
)
def test_the_text_of_a_rust_module_is_held_to_the_same(source: str, count: int) -> None:
    assert sum(len(list(english.faults(text))) for text in english.rust_texts(source)) == count


def test_the_place_of_a_fault_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(english, "ROOT", tmp_path)
    monkeypatch.setattr(english, "SOURCES", tmp_path)
    monkeypatch.setattr(english, "CRATES", tmp_path)
    (tmp_path / "good.py").write_text('"""A pod."""\n')
    (tmp_path / "made_pb2.py").write_text('"""What is generated."""\n')
    assert english.main() == 0
    (tmp_path / "bad.py").write_text('"""A pod."""\n\n\ndef name():\n    """What it is called."""\n')
    assert english.main() == 1
    assert capsys.readouterr().err.startswith("bad.py:5: docstring: begin with a noun phrase or a verb")
