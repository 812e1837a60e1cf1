"""The picture of the house follows the imports of its code."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import package_diagram as diagrams


def package(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / "house" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "house" / name).write_text(text)
    return root


FILES = {
    "__init__.py": "from house import roof\n",
    "roof/__init__.py": "",
    "roof/tiles.py": "import os\nfrom house.walls import brick\nfrom . import ridge\nfrom house.roof import ridge\n",
    "roof/ridge.py": "def late():\n    import house.floor.wood\n",
    "walls/brick.py": "from house import floor\n",
    "walls/test/deep.py": "",
    "floor.py": "",
    "garden/tree.py": "from house.roof import tiles\n",
}


def test_an_import_anywhere_in_a_file_is_an_arrow_between_parts(tmp_path: Path) -> None:
    found = diagrams.arrows(package(tmp_path, FILES), "house", frozenset({"garden"}))
    assert found == {
        "roof": frozenset({"walls", "floor"}),
        "walls": frozenset({"floor"}),
        "floor": frozenset(),
    }


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    given = {"a": frozenset("bcd"), "b": frozenset("c"), "c": frozenset(), "d": frozenset()}
    assert diagrams.reduced(given) == {**given, "a": frozenset("bd")}


def test_a_circle_of_imports_cannot_be_drawn() -> None:
    given = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a")}
    with pytest.raises(ValueError, match="imports itself"):
        diagrams.reduced(given)


def test_the_page_gets_its_diagrams_and_keeps_its_words() -> None:
    marked = "".join(
        f"<!-- {word}: x -->\nwhat stood here\n<!-- end of {word} -->\n" for word in diagrams.DIAGRAMS
    )
    text = diagrams.drawn(f"before\n{marked}after\n")
    assert text.startswith("before\n<!-- packages: x -->\n```mermaid\n")
    assert "what stood here" not in text
    assert "    reconcile --> operations\n" in text
    assert text.endswith("<!-- end of roles -->\nafter\n")
    assert diagrams.drawn(text) == text


def test_a_page_without_a_place_for_a_diagram_is_a_fault() -> None:
    with pytest.raises(ValueError, match="0 places for the diagram of packages"):
        diagrams.drawn("no marker")
