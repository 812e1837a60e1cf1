"""Writes the Python messages of src/headrace/csi/specification from its .proto files.

`--check` only says whether they are up to date. Needs grpcio-tools; another release of it may write other text.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

SOURCES = Path(__file__).parent.parent / "src"
SPECIFICATION = Path("headrace/csi/specification")


def generated() -> dict[Path, str]:
    """Every generated file, from the folder of the sources."""
    protos = sorted(file.relative_to(SOURCES) for file in (SOURCES / SPECIFICATION).glob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        well_known = resources.files("grpc_tools") / "_proto"
        words = ["protoc", f"--proto_path={SOURCES}", f"--proto_path={well_known}"]
        words += [f"--python_out={folder}", f"--grpc_python_out={folder}", *map(str, protos)]
        if code := protoc.main(words):
            raise SystemExit(code)
        return {file.relative_to(folder): file.read_text("utf-8") for file in Path(folder).rglob("*.py")}


def main(arguments: Sequence[str]) -> int:
    """Writes the files, or names those that differ."""
    wanted = generated()
    if "--check" not in arguments:
        for file, text in wanted.items():
            (SOURCES / file).write_text(text, encoding="utf-8")
        return 0
    old = [file for file, text in wanted.items() if not _same(SOURCES / file, text)]
    for file in old:
        sys.stderr.write(f"{file} is not up to date: run tools/generate_csi.py\n")
    return 1 if old else 0


def _same(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
