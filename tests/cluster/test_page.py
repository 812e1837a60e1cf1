"""The master's web page in a real browser, on a real cluster: it tells what is so, also when things go wrong.

Every test ends with two demands: no script complained, and nothing but the master was asked for anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from headrace.testing.browser import Browser, BrowserError, Tab, chromium_program
from headrace.testing.cluster import Capability, ClusterBed, Rules, words
from headrace.testing.cluster.content import make_files
from headrace.testing.cluster.words import ClusterStatus

from .conftest import PATIENT

pytestmark = pytest.mark.skipif(chromium_program() is None, reason="chromium is not installed")

MEBIBYTE = 1 << 20
# So many that each worker owns some: of twelve, all were the first one's in every four-thousandth run.
FILES = make_files(40, MEBIBYTE // 4)
PHONE_PIXELS = 390
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
# WCAG 2.2, level AA, for text of any size.
LEAST_CONTRAST = 4.5
CONTRASTS = """(() => {
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, index) => {
    const part = parts(color)[index] / 255;
    return sum + weight * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  }, 0);
  const paper = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (parts(color)[3] !== 0) return color;
    }
  };
  const told = [...document.querySelectorAll("body *")].filter((element) => element.checkVisibility() &&
    [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()));
  return told.filter((element) => !element.closest("script, noscript")).map((element) => {
    const style = getComputedStyle(element), ink = element.closest("svg") ? style.fill : style.color;
    const [low, high] = [light(ink), light(paper(element))].sort((one, other) => one - other);
    return [element.textContent, (high + 0.05) / (low + 0.05)];
  });
})()"""


class OpenPage(Protocol):
    def __call__(
        self, cluster: ClusterBed, *, width: int = 1280, is_dark: bool = False, token: str | None = None
    ) -> Tab: ...


@pytest.fixture(scope="module")
def browsers() -> dict[str, Browser]:
    """Those of the clusters that tests share, by the master that they show."""
    return {}


def browser_of(cluster: ClusterBed, folder: Path) -> Browser:
    """One from where only the nodes of the bed can be reached."""
    return Browser(folder, prefix=cluster.control.command_prefix)


@pytest.fixture
def open_page(tmp_path: Path, browsers: dict[str, Browser]) -> Iterator[OpenPage]:
    """Opens a master's page, with the token of a reader or another one; returns when it tells something."""
    own: list[Browser] = []
    opened: list[tuple[Tab, str]] = []

    def go(cluster: ClusterBed, *, width: int = 1280, is_dark: bool = False, token: str | None = None) -> Tab:
        browser = browsers.get(cluster.master_url)
        if browser is None:
            browser = browser_of(cluster, tmp_path / "browser")
            own.append(browser)
        tab = browser.tab(width=width, is_dark=is_dark)
        opened.append((tab, cluster.master_url))
        tab.open(f"{cluster.master_url}/")
        tab.wait_for("document.body.dataset.ready === 'true'")
        show_names(tab, words.reader_token(cluster.token_file) if token is None else token)
        if token is None:
            tab.wait_for("document.getElementById('names').hidden")
        return tab

    yield go
    try:
        for tab, master_url in opened:
            tab.evaluate("1")
            assert tab.complaints == []
            asked = {url for url in tab.requests if not url.startswith("data:")}
            assert asked == {f"{master_url}/", f"{master_url}/v1/status"}
            # It would ask on, while other tests share its browser.
            tab.open("about:blank")
    finally:
        for browser in own:
            browser.close()


@pytest.fixture(scope="module")
def cluster(
    make_shared_cluster, browsers: dict[str, Browser], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterBed]:
    """Two nodes with all files in their caches, read once on the first. What a test strikes, it heals."""
    # A worker that is taken for dead or for slow, as the machine has no time for it, leaves its blocks elsewhere, too.
    made = make_shared_cluster(2, FILES, replace(PATIENT, dead_after_s=8.0))
    made.load()
    made.reading(made.node(0)).finish()
    with browser_of(made, tmp_path_factory.mktemp("browser")) as browser:
        browsers[made.master_url] = browser
        yield made


@pytest.fixture(scope="module")
def struck(
    make_shared_cluster, browsers: dict[str, Browser], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterBed]:
    """Two nodes with little room, a load that is pinned, and one of the workers dead."""
    made = make_shared_cluster(2, FILES, Rules(quota="8Mi"))
    made.load("train/class-1", flags=["--pin"])
    made.node(1).kill(made.worker(1))
    with browser_of(made, tmp_path_factory.mktemp("browser")) as browser:
        browsers[made.master_url] = browser
        yield made


def show_names(tab: Tab, token: str) -> None:
    """Types a token, if there is one."""
    if token:
        tab.evaluate(f"document.getElementById('token').value = {json.dumps(token)}")
        tab.evaluate("document.querySelector('#names button').click()")


def state_has(text: str) -> str:
    """An expression that is true when the page's verdict holds a text."""
    return f"document.getElementById('state').innerText.includes({json.dumps(text)})"


def test_an_empty_cluster_is_told_what_it_lacks(make_cluster, open_page: OpenPage) -> None:
    tab = open_page(make_cluster(0, {}))
    assert "No worker takes part: reads wait until one joins." in tab.text("#state")
    tab.wait_for(state_has("No snapshot yet, so nothing can be read: "))
    assert tab.text("#loads") == "no loads"
    assert tab.text("#workers") == "no workers"
    assert tab.text("#mounts") == "no mounts"
    assert tab.evaluate("document.title").startswith("(2)")


def test_a_cluster_that_is_well_is_seen_at_a_glance(cluster: ClusterBed, open_page: OpenPage) -> None:
    tab = open_page(cluster)
    tab.wait_for(state_has("All well: 2 workers, 2 mounts."))
    assert "100.0 %" in tab.text("#loads") and f"{len(FILES)} of {len(FILES)}" in tab.text("#loads")
    bars = tab.evaluate(
        "[...document.querySelectorAll('#workers [role=meter]')].map((bar) => bar.ariaValueNow)"
    )
    assert len(bars) == 2 and all(0 <= int(percent) < 100 for percent in bars)
    tab.wait_for("document.querySelectorAll('#chart polyline').length === 3")
    assert "MiB/s" in tab.text("#chart") or "MiB/s" in tab.evaluate(
        "document.getElementById('chart').textContent"
    )
    assert "now" in tab.evaluate("document.getElementById('chart').textContent")


def test_without_a_token_it_tells_numbers_alone(cluster: ClusterBed, open_page: OpenPage) -> None:
    tab = open_page(cluster, token="")
    tab.wait_for(state_has("All well: 2 workers, 2 mounts."))
    assert "100.0 %" in tab.text("#loads")
    assert not [each.name for each in cluster.bed.nodes if each.name in tab.text()]
    show_names(tab, cluster.token_file.read_text())
    assert "That is not a reader's token." in tab.text("#refusal")
    show_names(tab, "headrace.reader." + "0" * 64)
    tab.wait_for("document.getElementById('refusal').innerText.includes('does not know that token')")
    tab.wait_for(state_has("All well: 2 workers, 2 mounts."))
    show_names(tab, words.reader_token(cluster.token_file))
    tab.wait_for(f"document.getElementById('workers').innerText.includes({json.dumps(cluster.node(1).name)})")
    assert tab.text("#refusal") == "" and not tab.evaluate("document.getElementById('token').value")


def test_a_load_that_runs_tells_its_speed_and_what_is_left(make_cluster, open_page: OpenPage) -> None:
    # Few requests at the same time: so the first files are in long before the last.
    cluster = make_cluster(2, make_files(48, MEBIBYTE), replace(PATIENT, worker={"concurrency": 2}))
    cluster.bed.need(Capability.LINKS)
    # All of it would take half a minute: a busy machine shows it before.
    cluster.bed.storage.set_rate(15_000_000)
    tab = open_page(cluster)
    cluster.load(flags=[words.DETACHED])
    tab.wait_for("/MiB\\/s, .* left$/m.test(document.getElementById('loads').innerText)")
    assert "running" in tab.text("#loads")
    cluster.bed.storage.set_rate(None)
    tab.wait_for("document.getElementById('loads').innerText.includes('took ')")
    assert "100.0 %" in tab.text("#loads")


def test_hostile_names_are_text(make_cluster, open_page: OpenPage) -> None:
    folder = HOSTILE.replace("/", "\u2215")
    # A worker that is suspect for a moment would be told in the title.
    rules = replace(PATIENT, worker={"node": HOSTILE}, mount={"node": HOSTILE})
    cluster = make_cluster(1, {f"{folder}/a.bin": b"a" * 1000}, rules)
    cluster.load(folder)
    tab = open_page(cluster)
    tab.wait_for(f"document.getElementById('mounts').innerText.includes({json.dumps(HOSTILE)})")
    assert HOSTILE in tab.text("#workers")
    assert folder in tab.text("#loads")
    assert tab.evaluate("[document.images.length, document.scripts.length]") == [0, 1]
    assert tab.evaluate("document.title") == "headrace – Headrace"


def test_what_got_in_could_not_write_html_nor_ask_anybody(make_cluster, open_page: OpenPage) -> None:
    tab = open_page(make_cluster(0, {}))
    with pytest.raises(BrowserError, match="TrustedHTML"):
        tab.evaluate("document.body.innerHTML = '<b>owned</b>'")
    elsewhere = "fetch('http://198.51.100.1/').then(() => 'went', () => 'blocked')"
    assert tab.evaluate(elsewhere) == "blocked"
    assert any("Content Security Policy" in complaint for complaint in tab.complaints)
    tab.complaints.clear()


@pytest.mark.parametrize("width", [PHONE_PIXELS, 1280])
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_it_can_be_read_on_a_phone_and_at_night(
    struck: ClusterBed, open_page: OpenPage, width: int, is_dark: bool
) -> None:
    tab = open_page(struck, width=width, is_dark=is_dark)
    tab.wait_for(state_has("dead"))
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(13, 17, 23)" if is_dark else "rgb(255, 255, 255)")
    assert [each for each in tab.evaluate(CONTRASTS) if each[1] < LEAST_CONTRAST] == []


@pytest.mark.parametrize("width", [PHONE_PIXELS, 1280])
def test_assistive_software_is_told_everything_by_name(
    cluster: ClusterBed, open_page: OpenPage, width: int
) -> None:
    told = open_page(cluster, width=width).accessible()
    assert {name for role, name in told if role == "table"} == {"Loads", "Workers", "Mounts"}
    columns = {name for role, name in told if role == "columnheader"}
    assert {"Worker", "State", "Cache", "Progress", "Mountpoint"} <= columns
    named = ("img", "image", "meter", "progressbar", "table", "columnheader", "heading")
    assert [role for role, name in told if role in named and not name.strip()] == []
    assert any(role == "progressbar" and name.startswith("Progress of load") for role, name in told)
    assert any(role in ("img", "image") and name.startswith("Chart of bytes") for role, name in told)
    assert "status" in {role for role, _ in told}


def test_thousands_of_mounts_do_not_drown_the_page(cluster: ClusterBed, open_page: OpenPage) -> None:
    tab = open_page(cluster)
    status = cluster.status().raw
    many = status | {"mounts": status["mounts"][:1] * 5000}
    # In one go: the page asks its master again all the time.
    mounts = (
        "(() => { const at = document.getElementById('mounts'); return [at.rows.length, at.innerText]; })()"
    )
    rows, text = tab.evaluate(f"show({json.dumps(many)}); {mounts}")
    assert rows <= 201
    assert "and 4,800 more" in text


def test_what_a_mount_reads_from_other_nodes_is_told_apart(cluster: ClusterBed, open_page: OpenPage) -> None:
    held = cluster.wait_for("all bytes", lambda status: status.cached_bytes >= cluster.content.size_bytes)
    held_there = held.workers[cluster.node(1).name].cached_bytes

    def peer_bytes(status: ClusterStatus) -> int:
        (found,) = (one["peer_bytes"] for one in status.raw["mounts"] if one["node"] == cluster.node(0).name)
        return int(found)

    # A mount reports every ten seconds, also while it reads.
    told = cluster.wait_for(
        "the reader's mount to report it all", lambda status: peer_bytes(status) >= held_there
    )
    assert 0 < held_there <= peer_bytes(told) <= cluster.content.size_bytes
    tab = open_page(cluster)
    assert "MiB" in tab.text("#mounts tr td:nth-child(5)")


def test_a_dead_worker_is_told_in_a_sentence_and_stands_first(
    cluster: ClusterBed, open_page: OpenPage
) -> None:
    tab = open_page(cluster)
    tab.wait_for(state_has("All well"))
    cluster.node(1).kill(cluster.worker(1))
    tab.wait_for(state_has("Worker node-1 is dead"))
    tab.wait_for("document.title.startsWith('(1)')")
    assert tab.evaluate("document.querySelector('#workers .bad').closest('tr').rowIndex") == 1
    cluster.start_worker(cluster.node(1))
    tab.wait_for(state_has("All well"))


@pytest.mark.parametrize(
    ("strike", "heal", "why"),
    [
        pytest.param("kill", "start_master", "no connection", id="dead"),
        pytest.param("freeze", "thaw", "no answer within 5 s", id="frozen"),
    ],
)
def test_a_master_out_of_reach_is_told_and_forgotten_when_it_is_back(
    cluster: ClusterBed, open_page: OpenPage, strike: str, heal: str, why: str
) -> None:
    tab = open_page(cluster)
    getattr(cluster.control, strike)(cluster.master)
    tab.wait_for(state_has(f"cannot be reached: {why}"))
    assert "What stands below was so at" in tab.text("#state .bad")
    assert "node-1" in tab.text("#workers")
    if heal == "thaw":
        cluster.control.thaw(cluster.master)
    else:
        cluster.start_master()
    tab.wait_for(state_has("All well"))
    assert tab.evaluate("document.body.dataset.stale === undefined")
