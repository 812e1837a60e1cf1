"""The benchmark's pure parts: statistics, ratios, promises, reports, and the pages of the listing server."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from xml.etree import ElementTree

import pytest
from benchmarks import rows
from benchmarks.data import entry_name
from benchmarks.listing_server import Bucket, Directory, Query
from benchmarks.promises import PROMISES, Verdict, judge, judge_against_peers
from benchmarks.report import figures
from benchmarks.report.markdown import table, write_markdown
from benchmarks.report.record import Run, as_document, ratios
from benchmarks.report.statistics import Better, advantage, best, summarize
from benchmarks.samples import Samples
from benchmarks.session import Session, interleaved
from benchmarks.settings import QUICK
from benchmarks.suites.epochs import check_held

KINDS = {"local": "local", "headrace": "headrace", "s3fs": "peer", "rclone": "peer"}


def samples_of(row, **values):
    samples = Samples()
    for name, figure in values.items():
        for value in figure if isinstance(figure, list) else [figure]:
            samples.add(row, name, value)
    return samples


def run_of(samples):
    return Run(
        facts={"kernel": "6.18"},
        scale=QUICK,
        versions={"s3fs": "1.90"},
        left_out={"goofys": "not installed here"},
        samples=samples,
        kinds=KINDS,
        command="make bench",
        drops_caches=True,
        seconds=90.0,
    )


def outcome_of(row, samples, mode=""):
    (text,) = {promise.text for promise in PROMISES if promise.row == row and promise.mode == mode}
    return next(outcome for outcome in judge(samples, "headrace") if outcome.text == text)


def test_summary_is_median_and_range():
    summary = summarize([3.0, 1.0, 10.0])
    assert (summary.median, summary.smallest, summary.largest, summary.count) == (3.0, 1.0, 10.0, 3)
    assert summary.spread == pytest.approx(3.0)


def test_median_of_an_even_number_lies_between_the_middle_two():
    assert summarize([1.0, 2.0, 4.0, 100.0]).median == 3.0


def test_nothing_cannot_be_summarized():
    with pytest.raises(ValueError, match="no values"):
        summarize([])


def test_spread_of_a_zero_median_is_zero():
    assert summarize([0.0, 0.0]).spread == 0.0


@pytest.mark.parametrize(
    ("ours", "theirs", "better", "expected"),
    [
        (200.0, 100.0, Better.HIGHER, 2.0),
        (200.0, 100.0, Better.LOWER, 0.5),
        (0.5, 2.0, Better.LOWER, 4.0),
        (1.0, 0.0, Better.HIGHER, None),
        (0.0, 1.0, Better.LOWER, None),
    ],
)
def test_advantage_is_above_one_where_ours_is_better(ours, theirs, better, expected):
    assert advantage(ours, theirs, better) == expected


def test_best_follows_the_direction_of_the_row():
    medians = {"a": 1.0, "b": 5.0}
    assert (best(medians, Better.HIGHER), best(medians, Better.LOWER), best({}, Better.LOWER)) == (
        "b",
        "a",
        None,
    )


def test_a_contender_that_failed_once_has_no_figure_and_keeps_its_first_reason():
    samples = samples_of(rows.WALK, headrace=[1.0, 2.0])
    samples.leave_out(rows.WALK, "headrace", "find failed")
    samples.leave_out(rows.WALK, "headrace", "mount is gone")
    assert samples.summaries(rows.WALK.key) == {}
    assert samples.reasons[rows.WALK.key]["headrace"] == "find failed"


def test_ratios_are_to_local_and_to_the_best_peer():
    run = run_of(samples_of(rows.SEQUENTIAL_HOT, local=1000.0, headrace=950.0, s3fs=100.0, rclone=475.0))
    found = ratios(run, rows.SEQUENTIAL_HOT, "headrace")
    assert (found.to_local, found.to_best_peer, found.best_peer) == (0.95, 2.0, "rclone")


def test_a_reference_takes_no_part_in_ratios():
    run = run_of(samples_of(rows.LIST_WIDE, **{"plain-client": 9e9, "headrace": 100.0, "rclone": 50.0}))
    found = ratios(run, rows.LIST_WIDE, "headrace")
    assert (found.to_local, found.best_peer) == (None, "rclone")


@pytest.mark.parametrize(("headrace", "verdict"), [(950.0, Verdict.REACHED), (949.0, Verdict.NOT_REACHED)])
def test_promise_relative_to_local_turns_at_its_threshold(headrace, verdict):
    samples = samples_of(rows.SEQUENTIAL_HOT, local=1000.0, headrace=headrace)
    assert outcome_of(rows.SEQUENTIAL_HOT, samples).verdict is verdict


def test_a_promise_of_a_view_is_judged_by_the_view():
    samples = samples_of(rows.SDK_LOOP, **{"local": 1000.0, "headrace": 300.0, "headrace-view": 1100.0})
    assert outcome_of(rows.SDK_LOOP, samples).verdict is Verdict.NOT_REACHED
    outcome = outcome_of(rows.SDK_LOOP, samples, "view")
    assert (outcome.verdict, outcome.figure) == (Verdict.REACHED, 1.1)


@pytest.mark.parametrize(("seconds", "verdict"), [(1.5, Verdict.REACHED), (1.51, Verdict.NOT_REACHED)])
def test_promise_of_a_time_turns_at_its_threshold(seconds, verdict):
    row = rows.names_of(1_000_000)
    assert outcome_of(row, samples_of(row, headrace=seconds)).verdict is verdict


def test_a_promise_in_seconds_names_what_the_local_file_system_took():
    row = rows.long_names_of(1_000_000)
    assert outcome_of(row, samples_of(row, headrace=4.0, local=17.7)).note == "the local file system: 17.7 s"


@pytest.mark.parametrize(("seconds", "is_said"), [(0.3, False), (0.31, True)])
def test_why_a_promise_is_not_reached_is_said_beside_it(seconds, is_said):
    note = outcome_of(rows.MOUNT_AGAIN, samples_of(rows.MOUNT_AGAIN, headrace=seconds)).note
    assert ("lists the bucket" in note) is is_said


def test_promise_without_a_figure_is_not_measured_and_says_why():
    samples = Samples()
    samples.leave_out(rows.LINK_ONE, "headrace", "did not mount")
    outcome = outcome_of(rows.LINK_ONE, samples)
    assert (outcome.verdict, outcome.note) == (Verdict.NOT_MEASURED, "did not mount")


def test_promise_relative_to_local_needs_local():
    assert outcome_of(rows.STAT_HOT, samples_of(rows.STAT_HOT, headrace=5.0)).verdict is Verdict.NOT_MEASURED


@pytest.mark.parametrize(
    ("local", "headrace", "peer", "verdict", "wanted"),
    [
        (1000.0, 900.0, 450.0, Verdict.REACHED, "≥ 2×"),
        (1000.0, 900.0, 460.0, Verdict.NOT_REACHED, "≥ 2×"),
        (1000.0, 900.0, 600.0, Verdict.REACHED, "no room"),
    ],
)
def test_twice_the_best_peer_is_asked_where_local_leaves_room(local, headrace, peer, verdict, wanted):
    samples = samples_of(rows.SMALL_AGAIN, local=local, headrace=headrace, s3fs=peer, rclone=1.0)
    (outcome,) = judge_against_peers(samples, "headrace", {"s3fs", "rclone"})
    assert (outcome.verdict, outcome.wanted) == (verdict, wanted)
    assert "s3fs" in outcome.note


@pytest.mark.parametrize(("headrace", "is_said"), [(100.0, True), (200.0, False)])
def test_what_a_view_gives_is_said_where_the_default_is_not_twice_the_best_peer(headrace, is_said):
    values = {"local": 300.0, "headrace": headrace, "headrace-view": 270.0, "s3fs": 100.0}
    (outcome,) = judge_against_peers(samples_of(rows.MIXED_HOT, **values), "headrace", {"s3fs"})
    assert ("with `--mode view`: 2.70×" in outcome.note) is is_said


def test_rows_that_cannot_be_compared_are_not_judged_against_peers():
    samples = samples_of(rows.LINK_BYTES, headrace=1.0, s3fs=1.0)
    assert judge_against_peers(samples, "headrace", {"s3fs"}) == []


def test_every_promise_has_a_row_and_a_text_of_its_own():
    assert len({promise.text for promise in PROMISES}) == len(PROMISES)
    assert len({(promise.row.key, promise.measure, promise.mode) for promise in PROMISES}) == len(PROMISES)


def test_interleaving_measures_each_once_a_repetition_and_never_in_the_same_place():
    order = [item for _, item in interleaved("ABC", 3)]
    assert "".join(order) == "ABCBCACAB"


MEBIBYTE = 1 << 20


@pytest.mark.parametrize(
    ("disk", "hits", "complaint"),
    [
        (100, 100, None),
        (114, 114, None),
        (130, 100, "130 MiB of a quota of 100 MiB"),
        (100, 200, "memory served"),
    ],
)
def test_epochs_count_only_with_half_of_the_data_kept(disk, hits, complaint):
    context = pytest.raises(OSError, match=complaint) if complaint else contextlib.nullcontext()
    with context:
        check_held(disk * MEBIBYTE, hits * MEBIBYTE, 100 * MEBIBYTE)


def session_of(**changes):
    scale = dataclasses.replace(QUICK, repetitions=3)
    parts = dict.fromkeys(("work", "loop", "contenders", "server", "link"))
    return Session(scale=scale, **{**parts, **changes})


def test_a_run_out_of_time_still_measures_everybody_once():
    session = session_of(suite_ends_at=0.0)
    assert [item for _, item in session.repeated("ABC")] == ["A", "B", "C"]


def test_a_run_with_time_makes_every_repetition():
    assert len(list(session_of().repeated("ABC"))) == 9


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567.8, "1,234,568"), (999.4, "999"), (12.345, "12.3"), (0.01234, "0.0123"), (0.0, "0")],
)
def test_numbers_have_three_digits_that_matter(value, text):
    assert figures.number(value) == text


def test_markdown_cells_cannot_break_the_table():
    assert list(table(("a", "b"), [("x|y", "z")]))[2] == "| x&#124;y | z |"


def test_reports_hold_every_figure_reason_and_verdict(tmp_path):
    samples = samples_of(rows.SEQUENTIAL_HOT, local=[900.0, 1100.0], headrace=990.0, s3fs=10.0)
    samples.leave_out(rows.SEQUENTIAL_HOT, "rclone", "mount failed")
    run = run_of(samples)
    document = json.loads(json.dumps(as_document(run)))
    (row,) = document["rows"]
    assert row["contenders"]["local"]["values"] == [900.0, 1100.0]
    assert row["left_out"] == {"rclone": "mount failed"}
    assert document["promises"][0]["verdict"] == "reached"
    write_markdown(run, tmp_path / "page.md", plot="plot.png")
    page = (tmp_path / "page.md").read_text()
    for text in (
        "make bench",
        "1,000 (900–1,100)",
        "mount failed",
        "not installed here",
        "plot.png",
        "0.99× local",
    ):
        assert text in page


@pytest.fixture
def bucket():
    return Bucket([Directory.make("wide-2500", 2500), Directory.make("wide-10", 10)])


def listed(bucket, **query):
    page = ElementTree.fromstring(bucket.list(Query.parse("&".join(f"{k}={v}" for k, v in query.items()))))
    space = "{http://s3.amazonaws.com/doc/2006-03-01/}"
    keys = [element.text for element in page.iter(f"{space}Key")]
    folders = [element.findtext(f"{space}Prefix") for element in page.iter(f"{space}CommonPrefixes")]
    return keys, folders, page.findtext(f"{space}NextContinuationToken")


def test_listing_server_pages_through_every_key_once_and_in_order(bucket):
    keys, token = [], ""
    for _ in range(10):
        page, _, token = listed(bucket, **{"list-type": 2, "continuation-token": token or ""})
        keys += page
        if not token:
            break
    expected = [f"wide-10/{entry_name(i)}" for i in range(10)] + [
        f"wide-2500/{entry_name(i)}" for i in range(2500)
    ]
    assert keys == expected


def test_listing_server_starts_after_any_key_and_stays_below_its_prefix(bucket):
    after = f"wide-2500/{entry_name(7)}"
    keys, _, _ = listed(
        bucket, **{"list-type": 2, "prefix": "wide-2500/", "start-after": after, "max-keys": 2}
    )
    assert keys == [f"wide-2500/{entry_name(8)}", f"wide-2500/{entry_name(9)}"]
    keys, _, token = listed(bucket, **{"list-type": 2, "prefix": "wide-10/", "start-after": f"{after}x"})
    assert (keys, token) == ([], None)


def test_listing_server_shows_folders_at_the_root(bucket):
    assert listed(bucket, **{"list-type": 2, "delimiter": "/"})[:2] == ([], ["wide-10/", "wide-2500/"])


def test_listing_server_knows_which_keys_exist(bucket):
    assert bucket.holds(f"wide-10/{entry_name(9)}")
    assert not bucket.holds(f"wide-10/{entry_name(10)}")
    assert not bucket.holds("wide-10/other")
