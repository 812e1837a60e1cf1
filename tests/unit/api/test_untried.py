"""What the page says of fields that no test uses on a real cluster is true."""

from __future__ import annotations

from pathlib import Path

import pytest
from every_field import ELSEWHERE, alluxio, dataset, jindo, used

from headrace.api.ignored import IGNORED
from headrace.api.kinds import KINDS
from headrace.api.manifests import read_objects
from headrace.api.shapes import fields_below
from headrace.api.untried import UNTRIED, is_untried
from headrace.settings.yaml_streams import write_stream

TESTS = Path(__file__).parents[2] / "kubernetes"
OBJECTS = [dataset("wide", "node-1", "bucket", "http://host:1", "us-east-1"), alluxio("wide"), jindo("deep")]
DECLARED = set(used(OBJECTS))


def effective(kind: str) -> list[str]:
    """The fields of a kind's spec that have an effect."""
    named = [path.replace("[]", "") for path in IGNORED.get(kind, {})]
    fields = [path for path, _, _ in fields_below(KINDS[kind].model) if path.startswith("spec.")]
    plain = {path: path.replace("[]", "") for path in fields}
    return [
        path
        for path in fields
        if not any(plain[path] == each or plain[path].startswith(f"{each}.") for each in named)
    ]


def elsewhere(kind: str) -> set[str]:
    return {path for paths in ELSEWHERE.get(kind, {}).values() for path in paths}


@pytest.mark.parametrize("kind", list(UNTRIED))
def test_each_field_is_used_on_a_real_cluster_or_the_page_says_that_it_is_not(kind: str) -> None:
    tried = {path for each, path in DECLARED if each == kind} | elsewhere(kind)
    untried = {path for path in effective(kind) if is_untried(kind, path)}
    assert set(effective(kind)) - tried - untried == set(), "neither used nor named"
    assert tried & untried == set(), "used, and named as if it were not"


@pytest.mark.parametrize("kind", list(ELSEWHERE))
def test_what_other_tests_use_stands_in_them(kind: str) -> None:
    for file, paths in ELSEWHERE[kind].items():
        text = (TESTS / file).read_text()
        assert kind.lower() in text.lower()
        for path in paths:
            assert path.rpartition(".")[2].removesuffix("[]") in text, path


def test_the_objects_are_taken_as_they_are() -> None:
    assert len(read_objects(write_stream(OBJECTS), "test")) == len(OBJECTS)


def test_the_page_marks_them() -> None:
    page = (TESTS.parents[1] / "docs" / "reference" / "api.md").read_text()
    assert "| `spec.to.dataset` |" in page
    marked = [line for line in page.splitlines() if line.startswith("| `spec.") and line.endswith(" † |")]
    assert len(marked) == sum(is_untried(kind, path) for kind in UNTRIED for path in effective(kind))
