from __future__ import annotations

import json
import re

import pytest
from experiment.plan import Way, demo_plan
from experiment.report import Report, content_of, page_of
from experiment.runs import Run
from experiment.tables import table_of

PLAN = demo_plan()
SHAPE = PLAN.shapes[-1]


@pytest.fixture
def report() -> Report:
    result = {
        "time_s": 40.0,
        "steps": 2,
        "images": 2,
        "images_per_step": 1,
        "bytes": 10,
        "waited_s": 1.0,
        "accuracy_5": 0.9,
        "ends_s": [20.0 * (step + 1) for step in range(20)],
        "ranks": 4,
    }
    runs = [Run(SHAPE, way, result, {}, 10, 5, page_cache_dropped=way is not Way.COLD) for way in Way]
    tables = [table_of(PLAN, SHAPE, runs[:1], training_bytes=10)]
    return Report(PLAN, tables, runs, [], ["arena get <x> & y"], "a link", 10, 1.0)


def test_the_page_needs_nothing_beside_it(report: Report) -> None:
    page = page_of(report, '<?xml version="1.0"?>\n<svg id="picture"></svg>')
    assert '<svg id="picture">' in page
    assert "<?xml" not in page
    assert not re.search(r"<(script|link|img|iframe)\b|\bsrc=|\bhref=", page)


def test_what_was_typed_is_text_and_no_markup(report: Report) -> None:
    assert "arena get &lt;x&gt; &amp; y" in page_of(report, "<svg></svg>")


def test_the_json_has_every_run_with_its_bound(report: Report) -> None:
    content = json.loads(json.dumps(content_of(report)))
    assert [run["way"] for run in content["runs"]] == [way.value for way in Way]
    (column,) = content["tables"]["horovod-4x8"]
    assert column["training_time_s"] == 40.0
    assert column["bound_s"] > 0


def test_emulation_and_a_page_cache_that_was_not_emptied_are_said_plainly(report: Report) -> None:
    notes = " ".join(report.notes())
    assert "EMULATED" in notes
    assert notes.count("all of them are trained") == 1
    assert "NOT emptied" in notes
