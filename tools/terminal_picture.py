"""Draws lines of a terminal as an SVG in which each lights up when it came; rich draws the terminal itself."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 100
# Long waits are shown shorter: nobody looks at a still picture for as long as a link takes.
LONGEST_PAUSE_S = 2.0
SHORTEST_PAUSE_S = 0.15
FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
ROW = re.compile(r'(<text class="[^"]*)("[^>]*clip-path="url\(#session-line-(\d+)\)")')


@dataclass(frozen=True)
class Line:
    """What a terminal showed, and when; of a command without its prompt."""

    at_s: float
    text: str
    is_command: bool = False


def drawn(lines: Sequence[Line], *, title: str) -> str:
    """The SVG. It needs no font and nothing else from elsewhere, and is a still picture where motion is not wanted."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in lines:
        console.print(_styled(line), overflow="crop", no_wrap=True, crop=True)
    svg = FONT_FACE.sub("", console.export_svg(title=title, unique_id="session"))
    return _described(_timed(svg, lines), title, lines).rstrip() + "\n"


def transcript(lines: Sequence[Line]) -> str:
    """The lines as text."""
    return "\n".join(f"$ {line.text}" if line.is_command else line.text for line in lines)


def says_the_same(picture: Path, lines: Sequence[Line]) -> bool:
    """Whether the picture that is there has these lines, numbers apart."""
    if not picture.exists():
        return False
    found = re.search(r"<desc>(.*?)</desc>", picture.read_text(), re.DOTALL)
    return found is not None and _masked(html.unescape(found[1])) == _masked(transcript(lines))


def _styled(line: Line) -> Text:
    if not line.is_command:
        return Text(line.text)
    command, mark, comment = line.text.partition(" # ")
    return Text.assemble(("$ ", "bold green"), (command, "bold"), (mark + comment, "bright_black"))


def _timed(svg: str, lines: Sequence[Line]) -> str:
    """Rows get the class of their line; each class begins to be seen at its time."""
    timed = ROW.sub(lambda row: f"{row[1]} at{row[3]}{row[2]}", svg)
    rules = "".join(
        f".at{number}{{animation:seen 10ms {at:.1f}s both}}" for number, at in enumerate(_moments(lines))
    )
    still = "@media (prefers-reduced-motion:reduce){text{animation:none!important}}"
    style = f"@keyframes seen{{from{{opacity:.25}}to{{opacity:1}}}}{rules}{still}"
    return timed.replace("</style>", f"{style}\n    </style>", 1)


def _moments(lines: Sequence[Line]) -> list[float]:
    moments, last, now = list[float](), 0.0, 0.0
    for line in lines:
        now += min(max(line.at_s - last, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)
        last = line.at_s
        moments.append(now)
    return moments


def _described(svg: str, title: str, lines: Sequence[Line]) -> str:
    """For those who do not see it, and for whoever wants to know whether it is out of date."""
    told = f"<title>{html.escape(title)}</title>\n<desc>{html.escape(transcript(lines))}</desc>\n"
    return re.sub(r"(<svg[^>]*>\n)", lambda begin: begin[1] + told, svg, count=1)


def _masked(text: str) -> str:
    return re.sub(r"\d[\d.:,-]*", "0", text)
