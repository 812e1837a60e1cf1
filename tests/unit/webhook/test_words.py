"""The words of `headrace webhook`, and what its process loads."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from headrace.cli import main as command
from headrace.cli import webhook as verb
from headrace.webhook.webhook_process import WebhookSettings


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[WebhookSettings]:
    """The settings that the process would begin with."""
    found: list[WebhookSettings] = []

    async def note(settings: WebhookSettings, _kubeconfig: str | None) -> None:
        found.append(settings)

    monkeypatch.setattr(verb, "run_webhook", note)
    monkeypatch.setattr(verb, "start_python_log", lambda *_: None)
    return found


def test_without_words_it_is_what_the_chart_makes(begun: list[WebhookSettings]) -> None:
    assert command.main(["webhook"]) == 0
    (settings,) = begun
    assert (settings.host, settings.port, settings.health_port) == ("", 8443, 8080)
    assert settings.place.names[0] == "headrace-webhook.headrace-system.svc"
    assert settings.place.configuration == "headrace-webhook"
    assert (settings.rules.life, settings.rules.grace_s) == (timedelta(days=90), 120.0)


def test_every_word_counts(begun: list[WebhookSettings]) -> None:
    words = "--listen 127.0.0.1:1 --health-port 2 --service a.b --configuration c"
    words += " --certificate-life 24h --certificate-grace 1m --log-format text --log-level debug"
    assert command.main(["webhook", *words.split()]) == 0
    (settings,) = begun
    assert (settings.host, settings.port, settings.health_port) == ("127.0.0.1", 1, 2)
    assert settings.place.names == ("a.b.svc", "a.b", "a.b.svc.cluster.local")
    assert settings.place.configuration == "c"
    assert (settings.rules.life, settings.rules.grace_s) == (timedelta(days=1), 60.0)


@pytest.mark.parametrize(
    "words",
    [
        ["--listen", "8443"],
        ["--service", "headrace-webhook"],
        ["--service", "a.b.svc"],
        ["--certificate-life", "1m"],
        ["--certificate-life", "200000h"],
        ["--certificate-life", "soon"],
        ["--certificate-life", "1h", "--certificate-grace", "30m"],
        ["--certificate-grace", "0s"],
        ["--log-level", "loud"],
    ],
)
def test_words_that_make_no_sense_are_refused(
    words: list[str], begun: list[WebhookSettings], capsys: Any
) -> None:
    assert command.main(["webhook", *words]) != 0
    assert begun == []
    assert capsys.readouterr().err


def test_its_process_needs_no_native_code() -> None:
    """The image of operator and webhook has none."""
    check = "import sys, headrace.cli.webhook; print('headrace._native' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
