"""Libraries that write beside what they read: what each does on a read-only mount, and what helps.

`refused` and `remedy` are given the mount and a folder to write to. docs/writing-beside-data.md has their words.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FASTA = ">a\nACGT\n>b\nGGGG\n"


@dataclass(frozen=True)
class Case:
    """One library; `words` are in the error of `refused`."""

    module: str
    make: Callable[[Path], object]
    refused: Callable[[Path, Path], object]
    words: str
    remedy: Callable[[Path, Path], object]
    expected: object


def make_wal(root: Path) -> None:
    with closing(sqlite3.connect(root / "wal.db")) as database:
        database.execute("pragma journal_mode=wal")
        database.execute("create table t(x)")
        database.execute("insert into t values(1)")
        database.commit()


def rows(address: str) -> list[Any]:
    with closing(sqlite3.connect(address, uri=True)) as database:
        return database.execute("select x from t").fetchall()


def make_rocks(root: Path) -> None:
    from rocksdict import Rdict

    with closing(Rdict(str(root / "rocks"))) as database:
        database["a"] = 1


def read_rocks(folder: Path) -> Any:
    from rocksdict import AccessType, Rdict

    with closing(Rdict(str(folder / "rocks"), access_type=AccessType.read_only())) as database:
        return database["a"]


def copied(name: str, mount: Path, scratch: Path) -> Path:
    shutil.copytree(mount / name, scratch / name)
    return scratch


def make_level(root: Path) -> None:
    import plyvel

    with closing(plyvel.DB(str(root / "level"), create_if_missing=True)) as database:
        database.put(b"a", b"1")


def read_level(folder: Path) -> Any:
    import plyvel

    with closing(plyvel.DB(str(folder / "level"))) as database:
        return database.get(b"a")


def make_fasta(root: Path) -> None:
    (root / "genome.fa").write_text(FASTA)


def fetch(genome: Path, **index: str) -> str:
    import pysam

    with pysam.FastaFile(str(genome), **index) as file:
        return file.fetch("b")


def fetch_with_index_elsewhere(mount: Path, scratch: Path) -> str:
    import pysam

    index = str(scratch / "genome.fa.fai")
    pysam.faidx(str(mount / "genome.fa"), "--fai-idx", index, "a")
    return fetch(mount / "genome.fa", filepath_index=index)


def sequence(index: Path, genome: Path) -> str:
    from Bio import SeqIO

    with closing(SeqIO.index_db(str(index), str(genome), "fasta")) as sequences:
        return str(sequences["b"].seq)


def make_saved(root: Path) -> None:
    import datasets

    datasets.Dataset.from_dict({"x": [1, 2]}).save_to_disk(str(root / "mapped"))


def mapped(mount: Path, **where: str) -> Any:
    import datasets

    return datasets.load_from_disk(str(mount / "mapped")).map(lambda row: {"y": row["x"] + 1}, **where)["y"][
        :
    ]


def make_numbers(root: Path) -> None:
    import numpy

    numpy.arange(10).tofile(root / "numbers.bin")


def numbers(mount: Path, **mode: Any) -> int:
    import numpy

    return int(numpy.memmap(mount / "numbers.bin", dtype="int64", **mode).sum())


def make_environment(root: Path) -> None:
    import lmdb

    with lmdb.open(str(root / "beside-lmdb")) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"a", b"1")


def entries(mount: Path, **how: bool) -> int:
    import lmdb

    with lmdb.open(str(mount / "beside-lmdb"), **how) as environment:
        return environment.stat()["entries"]


def make_duck(root: Path) -> None:
    import duckdb

    with duckdb.connect(str(root / "t.duckdb")) as database:
        database.execute("create table t as select 1 as x")


def duck_rows(mount: Path, **how: bool) -> list[Any]:
    import duckdb

    with duckdb.connect(str(mount / "t.duckdb"), **how) as database:
        return database.execute("select x from t").fetchall()


CASES = {
    "SQLite, WAL": Case(
        "sqlite3",
        make_wal,
        lambda mount, _: rows(f"file:{mount}/wal.db?mode=ro"),
        "unable to open database file",
        lambda mount, _: rows(f"file:{mount}/wal.db?immutable=1"),
        [(1,)],
    ),
    "numpy.memmap": Case(
        "numpy",
        make_numbers,
        lambda mount, _: numbers(mount),
        "Read-only file system",
        lambda mount, _: numbers(mount, mode="r"),
        45,
    ),
    "RocksDB": Case(
        "rocksdict",
        make_rocks,
        lambda mount, _: read_rocks(mount),
        "Read-only file system",
        lambda mount, scratch: read_rocks(copied("rocks", mount, scratch)),
        1,
    ),
    "LevelDB": Case(
        "plyvel",
        make_level,
        lambda mount, _: read_level(mount),
        "LOCK: Read-only file system",
        lambda mount, scratch: read_level(copied("level", mount, scratch)),
        b"1",
    ),
    "pysam": Case(
        "pysam",
        make_fasta,
        lambda mount, _: fetch(mount / "genome.fa"),
        "error when opening file",
        fetch_with_index_elsewhere,
        "GGGG",
    ),
    "Biopython, index_db": Case(
        "Bio",
        make_fasta,
        lambda mount, _: sequence(mount / "genome.idx", mount / "genome.fa"),
        "unable to open database file",
        lambda mount, scratch: sequence(scratch / "genome.idx", mount / "genome.fa"),
        "GGGG",
    ),
    "Hugging Face datasets, map": Case(
        "datasets",
        make_saved,
        lambda mount, _: mapped(mount),
        "Read-only file system",
        lambda mount, scratch: mapped(mount, cache_file_name=str(scratch / "map.arrow")),
        [2, 3],
    ),
    "LMDB": Case(
        "lmdb",
        make_environment,
        lambda mount, _: entries(mount),
        "Read-only file system",
        lambda mount, _: entries(mount, readonly=True, lock=False),
        1,
    ),
    "DuckDB": Case(
        "duckdb",
        make_duck,
        lambda mount, _: duck_rows(mount),
        "Read-only file system",
        lambda mount, _: duck_rows(mount, read_only=True),
        [(1,)],
    ),
}


def make_all(root: Path) -> None:
    """The data of each case whose library is here."""
    for case in CASES.values():
        if find_spec(case.module) is not None:
            case.make(root)
