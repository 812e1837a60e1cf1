"""`headrace doctor` beside a real storage."""

from __future__ import annotations

import json

from .harness import Outcome, Shell
from .test_bad_input import options_of


def faults_of(outcome: Outcome) -> dict[str, dict[str, str]]:
    assert outcome.code in (0, 12), outcome.talk
    found = json.loads(outcome.stdout)
    faults = {each["check"]: each for each in found["findings"] if each["level"] == "fault"}
    assert (found["faults"], outcome.code != 0) == (len(faults), bool(faults))
    return faults


def test_a_storage_that_works_has_no_faults_and_one_that_refuses_has_a_remedy(
    exposed_shell: Shell, bucket
) -> None:
    bucket.fill({"a": b"1"})
    words = ("doctor", bucket.uri, "-o", "json", "--cache", "none", *options_of(bucket))
    assert faults_of(exposed_shell.run(*words)) == {}
    exposed_shell.environment["AWS_SECRET_ACCESS_KEY"] = "certainly-not-the-key"
    refused = exposed_shell.run(*words)
    assert "certainly-not-the-key" not in refused.talk + refused.stdout
    (fault,) = faults_of(refused).values()
    assert fault["check"] == f"list of {bucket.uri}" and fault["remedy"]
