"""The benchmark's command: makes the data, runs the suites, writes the reports, and leaves nothing behind.

python -m benchmarks.run [--quick] [--only SUITE]… [--peers NAME,…] [--modes MODE,…] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.contenders import HEADRACE_MODES, choose_contenders
from benchmarks.data import NotEnoughSpaceError, check_space
from benchmarks.machine import can_drop_caches, machine_facts
from benchmarks.native import FileLoop, LoopError
from benchmarks.pulse import pulse, pulse_facts
from benchmarks.report.markdown import write_markdown
from benchmarks.report.plot import write_plot
from benchmarks.report.record import Run, write_json
from benchmarks.report.table import print_tables
from benchmarks.session import MEASUREMENT_FAILURES, Session
from benchmarks.settings import DEFAULT, QUICK, Scale
from benchmarks.suites import NEED_NO_DATA, SHARES, SUITES
from headrace.testing.network import storage_link
from headrace.testing.s3_server import S3Server, versitygw_program

DEFAULT_MODES = ("auto", "view")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every suite ran; 1 when one broke off; 2 when the run could not start. Promises do not change it."""
    chosen = _parse(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        contenders, left_out = choose_contenders(
            Path(chosen.work) / "unset", peers=chosen.peers, modes=chosen.modes
        )
        return _run(chosen, [one.name for one in contenders], left_out)
    except (ValueError, LoopError, NotEnoughSpaceError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; mounts and data are removed", file=sys.stderr)
        return 130


def _run(chosen: argparse.Namespace, names: Sequence[str], left_out: dict[str, str]) -> int:
    scale = QUICK if chosen.quick else DEFAULT
    if chosen.repetitions:
        scale = replace(scale, repetitions=chosen.repetitions)
    start, failed, pulses = time.monotonic(), {}, []
    with _session(scale, chosen) as session:
        facts = machine_facts(session.work)
        versions = {contender.name: contender.version() for contender in session.contenders}
        versions["versitygw"] = _server_version()
        assert [contender.name for contender in session.contenders] == list(names)
        for suite in chosen.only or SUITES:
            session.say(f"== {suite}")
            pulses.append(pulse())
            session.begin_suite(SHARES[suite])
            try:
                SUITES[suite](session)
            except MEASUREMENT_FAILURES as error:
                failed[suite] = f"{type(error).__name__}: {error}"
                session.say(f"the suite {suite} broke off: {error}")
    run = Run(
        facts=facts.as_dict() | pulse_facts(pulses),
        scale=scale,
        versions=versions,
        left_out=left_out | {f"suite {name}": reason for name, reason in failed.items()},
        samples=session.samples,
        kinds={contender.name: contender.kind.value for contender in session.contenders},
        command=_command(chosen),
        drops_caches=can_drop_caches(),
        seconds=time.monotonic() - start,
    )
    _report(run, chosen)
    return 1 if failed else 0


@contextlib.contextmanager
def _session(scale: Scale, chosen: argparse.Namespace) -> Iterator[Session]:
    """A session over fresh data; whatever happens, its mounts and its folder go."""
    base = Path(chosen.work)
    base.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=base))
    session: Session | None = None
    try:
        contenders, _ = choose_contenders(work / "local", peers=chosen.peers, modes=chosen.modes)
        needs_data = not NEED_NO_DATA.issuperset(chosen.only or SUITES)
        if needs_data:
            check_space(work, scale, sum(contender.keeps_disk_cache for contender in contenders))
        with storage_link(None) as link, S3Server(work / "root", state=work / "server", link=link) as server:
            session = Session(scale, work, FileLoop(work), contenders, server, link)
            if needs_data:
                session.make_data()
            yield session
    finally:
        # After the mounts: a daemon that lost its server can hang in its unmount.
        if session is not None:
            session.clean_up()
        shutil.rmtree(work, ignore_errors=True)


def _report(run: Run, chosen: argparse.Namespace) -> None:
    out = Path(chosen.out)
    out.mkdir(parents=True, exist_ok=True)
    write_json(run, out / "benchmark.json")
    write_plot(run, out / "benchmark.png")
    write_markdown(run, out / "benchmark.md", plot="benchmark.png")
    if chosen.markdown:
        target = Path(chosen.markdown)
        plot = target.with_suffix(".png")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(out / "benchmark.png", plot)
        write_markdown(run, target, plot=plot.name)
    print_tables(run)
    print(f"\n{run.seconds / 60:.1f} minutes; JSON, plot and Markdown are in {out}", file=sys.stderr)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="small data, two repetitions, about 3 minutes")
    parser.add_argument("--only", action="append", choices=list(SUITES), help="this suite; may be repeated")
    parser.add_argument(
        "--peers", type=_names, help="these peers, comma-separated; '' for none (default: all here)"
    )
    parser.add_argument(
        "--modes",
        type=_modes,
        default=list(DEFAULT_MODES),
        help=f"ways to mount: {', '.join(HEADRACE_MODES)} (default: {','.join(DEFAULT_MODES)})",
    )
    parser.add_argument("--repetitions", type=int, help="how often each figure is taken")
    parser.add_argument("--out", default="bench-report", help="folder for the reports (default: %(default)s)")
    parser.add_argument("--markdown", help="also write the Markdown report to this file, its plot beside it")
    parser.add_argument(
        "--work", default=tempfile.gettempdir(), help="where data and caches lie (default: %(default)s)"
    )
    chosen = parser.parse_args(arguments)
    if chosen.repetitions is not None and chosen.repetitions < 1:
        parser.error("--repetitions must be at least 1")
    return chosen


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _modes(text: str) -> list[str]:
    modes = _names(text)
    for mode in modes:
        if mode not in HEADRACE_MODES:
            raise argparse.ArgumentTypeError(f"unknown mode {mode}; known: {', '.join(HEADRACE_MODES)}")
    return modes


def _command(chosen: argparse.Namespace) -> str:
    """The command for a reader to repeat the run; folders of this machine are left out."""
    parts = ["make bench"] if not sys.argv[1:] else ["python -m benchmarks.run"]
    parts += ["--quick"] * chosen.quick
    parts += [f"--only {suite}" for suite in chosen.only or ()]
    parts += [f"--peers {','.join(chosen.peers)}"] if chosen.peers is not None else []
    parts += [f"--modes {','.join(chosen.modes)}"] if tuple(chosen.modes) != DEFAULT_MODES else []
    parts += [f"--repetitions {chosen.repetitions}"] if chosen.repetitions else []
    return " ".join(parts)


def _server_version() -> str:
    from benchmarks.contenders.foreground import program_version  # noqa: PLC0415

    return program_version([str(versitygw_program()), "--version"])


if __name__ == "__main__":
    sys.exit(main())
