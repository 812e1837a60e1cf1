"""What `get` prints, beside what the documents that Headrace follows show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.api.formats import format_age, format_bytes, format_duration, format_percentage
from headrace.api.kinds import KINDS, kinds_called
from headrace.api.manifests import object_of, read_objects
from headrace.api.printing import get_text, header
from headrace.errors import ConfigError

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
SAMPLES = Path(__file__).parent / "samples"


def made(kind: str, seconds_ago: int, **parts: object) -> dict[str, object]:
    stamp = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    return {
        "apiVersion": KINDS[kind].api_version,
        "kind": kind,
        "metadata": {"name": "imagenet", "creationTimestamp": stamp},
        **parts,
    }


DATASET = made(
    "Dataset",
    5,
    status={
        "ufsTotal": "143.67GiB",
        "fileNum": "1431167",
        "phase": "Bound",
        "cacheStates": {
            "cached": "0.00B",
            "cacheCapacity": "648.00GiB",
            "cachedPercentage": "0.0%",
            "cacheHitRatio": "0.0%",
        },
    },
)
PHASES = {"masterPhase": "Ready", "workerPhase": "Ready", "fusePhase": "Ready", "workerNumberReady": 4}
VOLUME_SPEC = {
    "capacity": {"storage": "100Gi"},
    "accessModes": ["ReadWriteMany"],
    "persistentVolumeReclaimPolicy": "Retain",
    "claimRef": {"namespace": "default", "name": "imagenet"},
    "csi": {"driver": "x"},
}
CLAIM_STATUS = {"phase": "Bound", "capacity": {"storage": "100Gi"}, "accessModes": ["ReadWriteMany"]}


def test_datasets_print_as_in_the_seeds() -> None:
    assert get_text([object_of(DATASET)], NOW) == (
        "NAME       UFS TOTAL SIZE   CACHED   CACHE CAPACITY   CACHED PERCENTAGE   PHASE   AGE\n"
        "imagenet   143.67GiB        0.00B    648.00GiB        0.0%                Bound   5s"
    )


def test_runtimes_print_as_in_the_seeds() -> None:
    assert get_text([object_of(made("JindoRuntime", 285, status=PHASES))], NOW) == (
        "NAME       MASTER PHASE   WORKER PHASE   FUSE PHASE   AGE\n"
        "imagenet   Ready          Ready          Ready        4m45s"
    )


def test_volumes_and_claims_print_as_in_the_seeds() -> None:
    volume = object_of(made("PersistentVolume", 431, spec=VOLUME_SPEC, status={"phase": "Bound"}))
    claim = object_of(
        made("PersistentVolumeClaim", 431, spec={"volumeName": "imagenet"}, status=CLAIM_STATUS)
    )
    assert get_text([volume, claim], NOW) == (
        "NAME                        CAPACITY   ACCESS MODES   RECLAIM POLICY   STATUS   CLAIM              "
        "STORAGECLASS   REASON   AGE\n"
        "persistentvolume/imagenet   100Gi      RWX            Retain           Bound    default/imagenet   "
        "                        7m11s\n"
        "\n"
        "NAME                             STATUS   VOLUME     CAPACITY   ACCESS MODES   STORAGECLASS   AGE\n"
        "persistentvolumeclaim/imagenet   Bound    imagenet   100Gi      RWX                           7m11s"
    )


def test_wide_tables_have_the_other_columns_in_their_places() -> None:
    assert get_text([object_of(DATASET)], NOW, wide=True).splitlines()[0].split("   ")[-1] == "AGE"
    assert header(KINDS["Dataset"], wide=True)[5:] == [
        "PHASE",
        "HCFS URL",
        "TOTAL FILES",
        "CACHE HIT RATIO",
        "AGE",
    ]
    (line,) = get_text([object_of(made("AlluxioRuntime", 60, status=PHASES))], NOW, wide=True).splitlines()[
        1:
    ]
    assert line.split() == ["imagenet", "Ready", "4", "Ready", "Ready", "60s"]


def test_objects_of_several_kinds_and_namespaces_are_told_apart() -> None:
    things = [
        thing
        for file in sorted(SAMPLES.glob("*.yaml"))
        for thing in read_objects(file.read_text(), file.name)
    ]
    text = get_text(things, NOW, with_namespace=True)
    assert "team-a      dataset.data.fluid.io/everything" in text
    assert "default     jindoruntime.data.fluid.io/everything" in text
    assert "dataload.data.fluid.io/warm" in text


def test_backups_print_where_they_are() -> None:
    things = read_objects((SAMPLES / "operations.yaml").read_text(), "operations.yaml")
    (backup,) = [thing for thing in things if thing.name == "keep"]
    assert get_text([backup], NOW).splitlines()[1].split() == [
        "keep", "everything", "Complete", "pvc://backups/everything", "NA", "3m12s", "<unknown>",
    ]  # fmt: skip


def test_a_new_object_prints_blanks() -> None:
    assert get_text([object_of(made("DataLoad", 0, spec={"dataset": {"name": "d"}}))], NOW) == (
        "NAME       DATASET   PHASE   AGE   DURATION\nimagenet   d                 0s    "
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0.00B"), (1023, "1023.00B"), (1024, "1.00KiB"), (154_265_000_000, "143.67GiB"), (648 << 30, "648.00GiB"),
     ((1 << 30) - 1, "1.00GiB"), (1 << 60, "1.00EiB")],
)  # fmt: skip
def test_sizes(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 5, "0.0%"),
        (5, 5, "100.0%"),
        (9999, 10000, "99.9%"),
        (6, 5, "100.0%"),
        (1, 0, "0.0%"),
        (1, 3, "33.3%"),
    ],
)
def test_percentages_are_all_only_when_all_is_there(part: int, whole: int, text: str) -> None:
    assert format_percentage(part, whole) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-60, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (285, "4m45s"), (431, "7m11s"),
     (600, "10m"), (3120, "52m"), (10_799, "179m"), (10_800, "3h"), (11_100, "3h5m"), (28_800, "8h"), (172_799, "47h"),
     (172_800, "2d"), (180_000, "2d2h"), (86400 * 8, "8d"), (86400 * 365, "365d"),
     (86400 * 800, "2y70d"), (86400 * 365 * 9, "9y")],
)  # fmt: skip
def test_ages_are_kubectls(seconds: int, text: str) -> None:
    assert format_age(NOW - timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.4, "0s"), (192, "3m12s"), (60, "1m0s"), (3605, "1h0m5s"), (90000, "25h0m0s")],
)
def test_durations_are_gos(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("word", "names"),
    [("dataset", ["Dataset"]), ("Datasets", ["Dataset"]), ("alluxio", ["AlluxioRuntime"]), ("pv", ["PersistentVolume"]),
     ("datasets.data.fluid.io", ["Dataset"]),
     ("fluid", ["Dataset", "AlluxioRuntime", "JindoRuntime", "DataLoad", "DataMigrate", "DataBackup"])],
)  # fmt: skip
def test_kinds_are_found_by_all_their_words(word: str, names: list[str]) -> None:
    assert [kind.name for kind in kinds_called(word)] == names


def test_an_unknown_kind_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as raised:
        kinds_called("datset")
    assert raised.value.hint == "did you mean 'dataset'?"
