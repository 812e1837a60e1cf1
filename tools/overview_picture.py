"""Draws docs/images/overview.svg for the README: storage, workers, mounts, pods. Dark where the reader's page is."""

from __future__ import annotations

from pathlib import Path

PICTURE = Path("docs/images/overview.svg")
TITLE = "How a byte comes to a program"
DESCRIPTION = (
    "The storage sends each byte once to the worker of a node, which keeps it on SSD or in memory. Mounts take what "
    "they need from the worker of their own node or from a neighbour's, and show it as files to pods and programs. "
    "A master, through which no data goes, has the list of files and knows the members."
)
STYLE = """\
text{font:14px system-ui,sans-serif;fill:#1f2328;text-anchor:middle}
.small{font-size:12px;fill:#59636e}
rect,path{fill:none;stroke:#59636e;stroke-width:1.5}
.box{fill:#eef4ff;stroke:#3b5bdb}
.node{stroke-dasharray:4 4}
.data{stroke:#2b8a3e;stroke-width:2;marker-end:url(#data)}
.peer{stroke:#e67700;stroke-width:2;stroke-dasharray:7 5;marker-end:url(#peer)}
#data path{fill:#2b8a3e;stroke:none}
#peer path{fill:#e67700;stroke:none}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}.small{fill:#9198a1}rect,path{stroke:#9198a1}.box{fill:#1c2b4a;stroke:#748ffc}
.data{stroke:#51cf66}.peer{stroke:#ffa94d}#data path{fill:#51cf66;stroke:none}#peer path{fill:#ffa94d;stroke:none}}"""
WIDTH, HEIGHT = 880, 330
NODES = (("node 1", 20), ("node 2", 180))
NODE_HEIGHT = 130
BOX_WIDTH, BOX_HEIGHT = 130, 60
# The left edges of what stands in a node.
WORKER, MOUNT, POD = 300, 500, 700


def drawn() -> str:
    """The picture."""
    parts = [_storage(20, 95), _box(20, 245, "master", "files, members"), *(_node(*node) for node in NODES)]
    middles = [top + 75 for _, top in NODES]
    arrows = [
        *(
            f'<path class="data" d="M160 {145 + 10 * n} C220 {145 + 10 * n} 230 {y} {WORKER - 8} {y}"/>'
            for n, y in enumerate(middles)
        ),
        *(_arrow("data", WORKER + BOX_WIDTH, y, MOUNT, y) for y in middles),
        *(_arrow("data", MOUNT + BOX_WIDTH, y, POD, y) for y in middles),
        _arrow("peer", WORKER + BOX_WIDTH, middles[0] + 18, MOUNT, middles[1] - 18),
        _arrow("peer", WORKER + BOX_WIDTH, middles[1] - 18, MOUNT, middles[0] + 18),
    ]
    words = [
        _text(215, 86, "each byte once"),
        _text(580, 169, "or from a neighbour's disk"),
        _text(85, 320, "no data goes through it"),
    ]
    return "\n".join([_head(), *parts, *arrows, *words, "</svg>"]) + "\n"


def _head() -> str:
    markers = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" markerHeight="5" orient="auto">'
        '<path d="M0 0 8 4 0 8z"/></marker>'
        for name in ("data", "peer")
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n<title>{TITLE}</title>\n'
        f"<desc>{DESCRIPTION}</desc>\n<style>\n{STYLE}\n</style>\n<defs>{markers}</defs>"
    )


def _node(name: str, top: int) -> str:
    frame = f'<rect class="node" x="280" y="{top}" width="570" height="{NODE_HEIGHT}" rx="8"/>'
    boxes = (
        _box(WORKER, top + 45, "worker", "cache on disk"),
        _box(MOUNT, top + 45, "mount", "files, read-only"),
        _box(POD, top + 45, "pod, program", "open(), mmap()"),
    )
    return "\n".join([frame, _text(315, top + 20, name), *boxes])


def _box(left: int, top: int, name: str, what: str) -> str:
    middle = left + BOX_WIDTH // 2
    return (
        f'<rect class="box" x="{left}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>\n'
        f'<text x="{middle}" y="{top + 26}">{name}</text>\n{_text(middle, top + 46, what)}'
    )


def _storage(left: int, top: int) -> str:
    """A barrel."""
    side = f"M{left} {top + 12} v86 a65 12 0 0 0 130 0 v-86"
    lid = f"M{left} {top + 12} a65 12 0 0 0 130 0 a65 12 0 0 0 -130 0"
    return (
        f'<path class="box" d="{side}"/>\n<path class="box" d="{lid}"/>\n'
        f'<text x="{left + 65}" y="{top + 56}">bucket</text>\n{_text(left + 65, top + 78, "NFS, HDFS, web, …")}'
    )


def _arrow(kind: str, from_x: int, from_y: int, to_x: int, to_y: int) -> str:
    return f'<path class="{kind}" d="M{from_x} {from_y} L{to_x - 8} {to_y}"/>'


def _text(x: int, y: int, words: str) -> str:
    return f'<text class="small" x="{x}" y="{y}">{words}</text>'
