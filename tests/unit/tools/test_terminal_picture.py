from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tools.terminal_picture import Line, drawn, says_the_same, transcript

LINES = [
    Line(0.0, "cat a | md5sum & # <cold>", is_command=True),
    Line(3.3, "80d5 & more"),
    Line(3.4, "3.3 seconds"),
]


def test_each_line_is_in_the_picture_and_lights_up_after_the_one_before() -> None:
    svg = drawn(LINES, title="A & B")
    root = ElementTree.fromstring(svg)
    shown = "".join(text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text"))
    assert "80d5 & more".replace(" ", "\xa0") in shown
    assert ".at0{animation:seen 10ms 0.1s both}.at1{animation:seen 10ms 2.1s both}" in svg
    assert 'at0"' in svg
    assert 'at2"' in svg


def test_the_picture_asks_nothing_from_elsewhere() -> None:
    assert "url(http" not in drawn(LINES, title="").replace('"', "")


def test_a_picture_is_out_of_date_when_more_than_numbers_differ(tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    assert not says_the_same(picture, LINES)
    picture.write_text(drawn(LINES, title="A"))
    assert says_the_same(picture, [*LINES[:2], Line(9.0, "12.25 seconds")])
    assert not says_the_same(picture, [*LINES[:2], Line(9.0, "3.3 minutes")])


def test_the_transcript_tells_commands_from_output() -> None:
    assert transcript(LINES) == "$ cat a | md5sum & # <cold>\n80d5 & more\n3.3 seconds"
