"""The scripts of `headrace completion`, run by the shells that they are for."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.completion import bash, commands, fish, zsh
from headrace.cli.main import main
from headrace.cli.verbs import VERBS

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    for program in (commands.headrace(), commands.arena()):
        for name, shell in (("bash", bash), ("zsh", zsh), ("fish", fish)):
            (folder / f"{program.path[0]}.{name}").write_text(shell.script(program))
    return folder


def ask_bash(scripts: Path, words: list[str], cwd: Path) -> list[str]:
    program = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }\n'
    )
    program += f'_{words[0]}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    # bash itself takes --option=value for three words.
    split = [
        part for word in words for part in (word.replace("=", "\0=\0").split("\0") if "=" in word else [word])
    ]
    command = ["bash", "-c", program, "bash", str(scripts / f"{words[0]}.bash"), *split]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    assert done.stderr == ""
    return done.stdout.split()


def ask_fish(scripts: Path, words: list[str], cwd: Path) -> list[str]:
    line = " ".join(words)
    command = ["fish", "--no-config", "-c", f"source {scripts}/{words[0]}.fish; complete -C '{line}'"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    assert done.stderr == ""
    offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
    return [word.rpartition("=")[2] for word in offered]


def ask_zsh(scripts: Path, words: list[str], cwd: Path) -> list[str]:
    """What the line becomes after the key TAB, in a terminal: zsh completes nowhere else."""
    terminal, inner = pty.openpty()
    shell = subprocess.Popen(
        ["setsid", "--ctty", "zsh", "-f", "-i"], cwd=cwd, stdin=inner, stdout=inner, stderr=inner
    )
    os.close(inner)
    try:
        begin = (
            f"PS1=; unsetopt beep; autoload -U compinit; compinit -u -D; source {scripts}/{words[0]}.zsh\n"
        )
        _type(terminal, begin + "print -r -- READ''Y\n", until="READY")
        # Ctrl-A goes to the line's begin, so that the completed line is printed and not run.
        return _type(terminal, f"{' '.join(words)}\t\x01print -r -- LIN''E \n", until="LINE ").split()
    finally:
        os.close(terminal)
        shell.kill()
        shell.wait()


def _type(terminal: int, text: str, until: str) -> str:
    """Types, and waits for a whole line that begins so; what stands behind that."""
    os.write(terminal, text.encode())
    seen = ""
    while select.select([terminal], [], [], DEADLINE_S)[0]:
        seen += os.read(terminal, 65536).decode(errors="replace")
        lines = [
            line for line in seen.splitlines(keepends=True) if line.startswith(until) and line.endswith("\n")
        ]
        if lines:
            return lines[-1][len(until) :].strip()
    raise AssertionError(f"zsh did not answer within {DEADLINE_S} s: {seen!r}")


CASES = [
    (["headrace", "mou"], "mount"),
    (["headrace", "own"], "own-folders"),
    (["headrace", "mount", "--evi"], "--eviction"),
    (["headrace", "mount", "--mode", "el"], "elide"),
    (["headrace", "mount", "--mode=el"], "elide"),
    (["headrace", "mount", "--name", "warm", "--snapshot", "rev"], "revalidate"),
    (["headrace", "job", "submit", "py"], "pytorch"),
    (["headrace", "job", "submit", "mj", "--imag"], "--image"),
    (["headrace", "get", "datal"], "dataload"),
    (["arena", "sub"], "submit"),
    (["arena", "top", "nod"], "node"),
]


@pytest.mark.parametrize("ask", [ask_bash, ask_fish], ids=lambda ask: ask.__name__)
@pytest.mark.parametrize(
    ("words", "wanted"), CASES, ids=lambda each: " ".join(each) if isinstance(each, list) else each
)
def test_words_are_completed(
    ask: Callable[[Path, list[str], Path], list[str]],
    words: list[str],
    wanted: str,
    scripts: Path,
    tmp_path: Path,
) -> None:
    _need(ask)
    offered = ask(scripts, words, tmp_path)
    assert wanted in offered
    start = words[-1].rpartition("=")[2]
    assert all(word.startswith(start) for word in offered)


@pytest.mark.parametrize("words", [CASES[0][0], CASES[4][0]], ids=" ".join)
def test_zsh_completes_the_line(words: list[str], scripts: Path, tmp_path: Path) -> None:
    _need(ask_zsh)
    completed = {"mou": "mount", "--mode=el": "--mode=elide"}
    assert ask_zsh(scripts, words, tmp_path) == [*words[:-1], completed[words[-1]]]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_command_prints_the_script(shell: str, scripts: Path, capsys) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == (scripts / f"headrace.{shell}").read_text()


def test_an_unknown_shell_is_told_of(capsys) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "fish" in capsys.readouterr().err


def test_every_verb_is_there(scripts: Path, tmp_path: Path) -> None:
    assert set(ask_bash(scripts, ["headrace", ""], tmp_path)) == set(VERBS)


def _need(ask: Callable[..., list[str]]) -> None:
    shell = ask.__name__.removeprefix("ask_")
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
