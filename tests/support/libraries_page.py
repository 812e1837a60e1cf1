"""The samples of docs/libraries.md, the data that they read, and what they must find; each with the library itself."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "libraries.md"
ROWS = 60
LINES = "".join(f'{{"x": {number}}}\n' for number in range(ROWS))
TOTAL = sum(range(ROWS))
PARTS = ("0.parquet", "1.parquet")

_SAMPLE = re.compile(r"^## (?P<title>[^\n]+)\n\n```python\n(?P<code>.+?)```", re.MULTILINE | re.DOTALL)
SAMPLES: Mapping[str, str] = {found["title"]: found["code"] for found in _SAMPLE.finditer(PAGE.read_text())}


def make_data(root: Path) -> None:
    """A dataset for all samples whose library is here, each part written by the library that reads it."""
    root.mkdir()
    (root / "train.csv").write_text("x\n" + "".join(f"{number}\n" for number in range(ROWS)))
    (root / "lines.jsonl").write_text(LINES)
    (root / "shards").mkdir()
    for number in range(2):
        with tarfile.open(root / "shards" / f"{number}.tar", "w") as shard:
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = 1
            shard.addfile(member, io.BytesIO(str(number).encode()))
    (root / "parts").mkdir()
    for name in PARTS:
        (root / "parts" / name).write_bytes(b"PAR1")
    for module, make in MAKERS.items():
        if find_spec(module) is not None:
            make(root)


def make_parquet(root: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"x": list(range(ROWS))})
    pyarrow.parquet.write_table(table.slice(0, ROWS // 2), root / "parts" / "0.parquet")
    pyarrow.parquet.write_table(table.slice(ROWS // 2), root / "parts" / "1.parquet")
    pyarrow.parquet.write_table(table, root / "labels.parquet")
    # What is read where a path is taken for another one above it.
    for name in PARTS:
        pyarrow.parquet.write_table(pyarrow.table({"x": [-1]}), root / name)


def make_saved(root: Path) -> None:
    import datasets

    datasets.Dataset.from_dict({"x": list(range(ROWS))}).save_to_disk(str(root / "saved"))


def make_lance(root: Path) -> None:
    import lance
    import pyarrow

    lance.write_dataset(pyarrow.table({"x": list(range(ROWS))}), str(root / "table.lance"))


def make_zarr(root: Path) -> None:
    import numpy
    import zarr

    zarr.save_array(str(root / "array.zarr"), numpy.arange(ROWS))


def make_hdf5(root: Path) -> None:
    import h5py
    import numpy

    with h5py.File(root / "array.h5", "w") as file:
        file["x"] = numpy.arange(ROWS)


def make_npy(root: Path) -> None:
    import numpy

    numpy.save(root / "images.npy", numpy.arange(ROWS))


def make_weights(root: Path) -> None:
    import numpy
    import safetensors.numpy

    safetensors.numpy.save_file({"w": numpy.arange(ROWS)}, root / "weights.safetensors")


def make_lmdb(root: Path) -> None:
    import lmdb

    with lmdb.open(str(root / "lmdb")) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"key", b"value")


MAKERS: Mapping[str, Callable[[Path], None]] = {
    "pyarrow": make_parquet,
    "datasets": make_saved,
    "lance": make_lance,
    "zarr": make_zarr,
    "h5py": make_hdf5,
    "numpy": make_npy,
    "safetensors": make_weights,
    "lmdb": make_lmdb,
}


def total(values: Any) -> int:
    return sum(int(value) for value in values)


def texts(samples: Any) -> list[bytes]:
    return [sample["txt"] for sample in samples]


Found = SimpleNamespace
CHECKS: Mapping[str, Callable[[Found], object]] = {
    "fsspec": lambda found: (found.head, found.names) == ("x\n", [f"/parts/{name}" for name in PARTS]),
    "pandas": lambda found: total(found.labels.x) == total(found.train.x) == TOTAL,
    "PyArrow": lambda found: (
        found.parts.count_rows() == found.labels.num_rows == ROWS and found.mapped.size() > 0
    ),
    "Hugging Face datasets": lambda found: (
        [total(rows["x"] for rows in each) for each in (found.parts, found.stream, found.saved, found.mapped)]
        == [TOTAL] * 4
    ),
    "Dask": lambda found: found.parts.x.sum().compute() == TOTAL and found.lines.count().compute() == ROWS,
    "Polars": lambda found: (
        [total(each["x"]) for each in (found.lazy.collect(), found.labels, found.scanned.collect())]
        == [TOTAL] * 3
    ),
    "Lance": lambda found: total(found.table.to_table()["x"].to_pylist()) == TOTAL,
    "DuckDB": lambda found: found.total == found.mounted == [(TOTAL,)],
    "WebDataset": lambda found: texts(found.samples) == texts(found.mounted) == [b"0", b"1"],
    "Zarr": lambda found: total(found.array[:]) == total(found.mounted[:]) == TOTAL,
    "h5py": lambda found: total(found.array) == total(found.mounted) == TOTAL,
    "NumPy": lambda found: total(found.images) == total(found.mapped) == TOTAL,
    "safetensors": lambda found: total(found.weights["w"]) == total(found.mapped) == TOTAL,
    "LMDB": lambda found: found.value == b"value",
}


def run_sample(title: str, places: Mapping[str, Path]) -> Found:
    """The names that a sample binds, with the places of this machine where the page says others."""
    code = SAMPLES[title]
    for written, place in places.items():
        code = code.replace(written, str(place))
    found: dict[str, Any] = {"__name__": "sample"}
    exec(compile(code, f"{PAGE.name}: {title}", "exec"), found)
    return SimpleNamespace(**found)
