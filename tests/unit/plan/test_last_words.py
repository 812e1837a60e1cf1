"""What a process said last is told in a status: one line of it, and never a credential."""

from __future__ import annotations

import pytest

from headrace.plan.last_words import last_complaint, last_line, last_words


def test_a_complaint_is_told_before_what_follows_it() -> None:
    log = "error: an old one\nserving\nerror: the bucket is not there\nhint: make it\n\n"
    assert last_words(log) == last_complaint(log) == "the bucket is not there"
    assert last_line(log) == "hint: make it"


def test_a_log_without_a_complaint_has_a_last_line() -> None:
    traceback = "Traceback (most recent call last):\n  File \"a.py\"\nKeyError: 'workers'\n"
    assert (last_words(traceback), last_complaint(traceback)) == ("KeyError: 'workers'", "")
    assert last_words("") == last_words("\n \n") == ""


def test_it_is_one_line_that_moves_no_cursor_and_is_not_long() -> None:
    assert last_words("error: \x1b[31mred\x07\x00 \n") == "[31mred"
    assert len(last_words("error: " + "x" * 10_000)) == 400


@pytest.mark.parametrize(
    "said",
    [
        "cannot reach s3://me:topsecret@host/bucket",
        "aws.secretKey=topsecret, region=eu",
        '{"secret_access_key": "topsecret and more", "region": "eu"}',
        "fs.oss.accessKeySecret:topsecret",
        "GET /a?X-Amz-Signature=topsecret&b=1",
        "GET /a?X-Amz-Security-Token=topsecret",
        "password = topsecret",
        "Authorization: Bearer topsecret",
        "headers {'Authorization': 'AWS4 topsecret'}",
        "the key AKIAtopsecret0000 is not known",
        "no such option: --fs.oss-access-key-secret topsecret",
        "AccountName=me;AccountKey=topsecret;EndpointSuffix=x",
        "GET /a?sv=1&sig=topsecret&b=1",
        "cannot read eyJtopsecretly.eyJzdWIi.c2ln",
    ],
)
def test_no_credential_is_told(said: str) -> None:
    for words in (last_words(f"error: {said}"), last_line(said)):
        assert "topsecret" not in words
        assert "**********" in words


@pytest.mark.parametrize(
    "said",
    [
        "the token file /run/token is not there",
        "no such file: --token-file /run/token",
        "--password is needed",
        "Secret default/keys lacks the key id",
        "port: 8700 is in use",
    ],
)
def test_words_about_credentials_stay(said: str) -> None:
    assert last_words(f"error: {said}") == said
