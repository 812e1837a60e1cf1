"""The simulation of large clusters, with small ones. The placement itself is tested in Rust (`ring_simulation`)."""

from __future__ import annotations

from benchmarks.simulation import master, placement


def test_load_of_a_master_of_two_hundred_workers() -> None:
    load = master.measure(200)
    assert load.workers == 200
    assert load.heartbeats_per_s == 200
    assert load.view_bytes > 200 * 100
    assert load.change_bytes < 100
    assert load.tick_cpu_ms > 0 and load.publish_cpu_ms > 0


def test_larger_clusters_report_no_more_often_in_all_and_start_in_a_view_a_second() -> None:
    load = master.measure(1500)
    assert load.workers == 1500
    assert load.heartbeats_per_s <= 501
    assert load.peak_heartbeats_per_s <= 1000
    assert load.starting_views <= master.START_S + 2


def test_tables_have_a_row_for_everything_found() -> None:
    rows = list(master.tables([master.measure(10), master.measure(20)]))
    assert len(rows) == 4 and {row.count("|") for row in rows} == {11}
    fill = {"blocks_per_worker": 1000.0, "lowest": 0.9, "p99": 1.05, "highest": 1.1, "chance": 0.02}
    change = {"name": "1 joins", "share": 0.0001, "least": 0.0001, "stray": 0}
    found = {
        "workers": 9,
        "blocks": 99,
        "replicas": 2,
        "primaries": fill,
        "copies": fill,
        "movements": [change],
    }
    assert "| 1 joins | 0.0100% | 0.0100% | 0 |" in list(placement.tables(found))
