from __future__ import annotations

import re

from headrace.control.page import PAGE_HEADERS, page_bytes


def test_the_policy_lets_the_page_run_nothing_but_its_own_script() -> None:
    policy = dict(rule.split(" ", 1) for rule in PAGE_HEADERS["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", policy["script-src"])
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", policy["style-src"])
    assert policy["require-trusted-types-for"] == "'script'"


def test_the_page_is_whole_in_itself() -> None:
    text = page_bytes().decode()
    addresses = set(re.findall(r"https?://[^\s'\"]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name of XML, asked by nobody
    assert not re.findall(r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|document\.write)\b", text)
    assert " style=" not in text
