"""Each right of the chart has its reason in docs/kubernetes.md, and no reason is given for a right that nobody has."""

import re

import pytest
from charts import EVERY_OPTION, ROOT, named, render

pytestmark = [
    pytest.mark.slow,  # the first run on a machine builds helm
    pytest.mark.timeout(1200),
]

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
ROW = re.compile(r"^\| (cluster|namespace) \| (.+?) \| (.+?) \| (.+) \|$", re.M)
ACCOUNTS = ("headrace-operator", "headrace-webhook", "headrace-jobs")

Right = tuple[str, str, str, str]
"""Where, on what, what, and on which object alone."""


@pytest.fixture(scope="module")
def everything() -> list[dict]:
    return render(EVERY_OPTION)


def _given(objects: list[dict], account: str) -> set[Right]:
    places = {"ClusterRole": "cluster", "Role": "namespace"}
    return {
        (place, resource, verb, name)
        for kind, place in places.items()
        for rule in named(objects, kind, account)["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def _documented(objects: list[dict], account: str) -> set[Right]:
    section = PAGE.partition(f"### {account}\n")[2].partition("\n### ")[0]
    kinds = [each["spec"]["names"]["plural"] for each in objects if each["kind"].startswith("CustomResource")]
    found = set()
    for place, on_what, verbs, reason in ROW.findall(section):
        assert reason.strip()
        resources, _, names = on_what.partition(" named ")
        for word in re.findall(r"`(\S+)`", resources):
            every = [f"{kind}/{word}" for kind in kinds] if word in ("status", "finalizers") else [word]
            for name in re.findall(r"`(\S+)`", names) or [""]:
                found |= {(place, each, verb, name) for each in every for verb in verbs.split(", ")}
    return found


@pytest.mark.parametrize("account", ACCOUNTS)
def test_every_right_has_its_reason(everything: list[dict], account: str) -> None:
    given, documented = _given(everything, account), _documented(everything, account)
    assert len(given) > 10
    assert given - documented == set(), "rights without a reason"
    assert documented - given == set(), "reasons without a right"


def test_no_other_account_has_rights(everything: list[dict]) -> None:
    bound = {
        subject["name"]
        for each in everything
        if each["kind"].endswith("RoleBinding")
        for subject in each["subjects"]
    }
    assert bound == set(ACCOUNTS)
    roles = {each["metadata"]["name"] for each in everything if each["kind"] in ("Role", "ClusterRole")}
    assert roles == set(ACCOUNTS)
