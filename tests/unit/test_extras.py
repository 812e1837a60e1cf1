"""A package that is not installed: its extra is named, to whoever looked for it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headrace import extras
from headrace.exits import ExitCode, complaint, exit_code

WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None  # as if it were not installed
{program}
"""
KUBERNETES = ("cryptography", "google.protobuf", "grpc", "kubernetes_asyncio")


def _run_without(missing: tuple[str, ...], program: str) -> subprocess.CompletedProcess[str]:
    code = WITHOUT.format(missing=missing, program=program)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        ["operator"],
        ["webhook"],
        ["jobkeeper"],
        ["csi", "--endpoint", "unix:///nowhere", "--node", "n"],
        ["doctor", "--kubernetes"],
        ["support-bundle", "--kubernetes"],
    ],
    ids=lambda words: words[0],
)
def test_a_verb_that_needs_an_extra_names_it(words: list[str], tmp_path: Path) -> None:
    program = f"from headrace.cli.main import main\nsys.exit(main({words!r}))"
    done = _run_without(KUBERNETES, program)
    assert done.returncode == ExitCode.UNSUPPORTED
    assert done.stderr.startswith("error: the package ")
    assert done.stderr.endswith("is not installed\nhint: pip install 'headrace[kubernetes]'\n")


def test_a_master_that_is_to_send_metrics_names_the_extra_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    words = ["master", str(tmp_path / "data"), "--name", "c", "--listen", "127.0.0.1:0"]
    words += ["--state-directory", str(tmp_path / "state")]
    program = f"from headrace.cli.main import main\nsys.exit(main({words!r}))"
    done = _run_without(("opentelemetry",), program)
    assert done.returncode == ExitCode.UNSUPPORTED
    assert done.stderr.endswith("hint: pip install 'headrace[otlp]'\n")


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_a_source_of_the_sdk_names_the_extra_of_its_framework(framework: str) -> None:
    program = (
        f"try:\n    import headrace.client.{framework}\n"
        "except ModuleNotFoundError as error:\n    print(error.name, '|', error)"
    )
    done = _run_without((framework,), program)
    name, _, message = done.stdout.strip().partition(" | ")
    assert name.partition(".")[0] == framework
    assert message.endswith(f": pip install 'headrace[{framework}]'")


def test_a_module_of_ours_that_is_missing_stays_a_fault_of_ours() -> None:
    error = ModuleNotFoundError("No module named 'headrace.gone'", name="headrace.gone")
    assert exit_code(error) == ExitCode.UNEXPECTED
    assert "fault of Headrace" in complaint(error)
    assert extras.explained(error) is error


def test_a_package_that_is_there_and_broken_is_not_said_to_be_missing() -> None:
    assert extras.command_to_install(ImportError("cannot import name 'x'", name="torch")) is None


def test_every_extra_that_is_named_is_one_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(extras._EXTRAS.values()) <= set(project["optional-dependencies"])
