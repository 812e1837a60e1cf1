"""The Dockerfile beside what it is made of. Building it needs a registry; `make images` runs its parts without one."""

import ast
import inspect
import json
import re
import tomllib

from charts import ROOT, named, render

from headrace.testing.kubernetes import build_images, debian_root, packages

FILE = ROOT / "deploy" / "images" / "Dockerfile"
TEXT = FILE.read_text()


def _copied() -> list[str]:
    """What is copied from the repository, not from another stage."""
    lines = re.findall(r"^COPY (?!.*--from)(?:--\S+ )*(.+)$", TEXT, re.M)
    return [source for line in lines for source in line.split()[:-1]]


def test_what_is_copied_is_there_and_let_through() -> None:
    let_through = {
        line[1:] for line in (FILE.parent / "Dockerfile.dockerignore").read_text().split() if line[0] == "!"
    }
    assert len(_copied()) > 5
    for source in _copied():
        assert (ROOT / source).exists(), source
        assert any(source == each or source.startswith(f"{each}/") for each in let_through), source


def test_stages_are_made_before_they_are_used() -> None:
    made: set[str] = set()
    for line in TEXT.splitlines():
        if match := re.match(r"FROM (\S+) AS (\S+)", line):
            assert match[1].startswith("${") or match[1] in made
            made.add(match[2])
        elif match := re.match(r"COPY --from=(\S+)", line):
            assert match[1] in made
    assert {"operator", "engine"} <= made


def test_images_are_of_the_version_of_the_package_and_tell_it() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"ARG VERSION={version}\n" in TEXT
    assert "org.opencontainers.image.version=" in TEXT


def test_every_package_is_checked_against_its_hash_and_the_operator_is_nobody() -> None:
    assert "--require-hashes" in TEXT and "--locked" in TEXT
    operator = TEXT[TEXT.index(" AS operator") : TEXT.index(" AS engine")]
    assert "USER 65532" in operator
    assert "--from=native" not in operator


# Tests run on images that are put together without the Dockerfile, so what stands in both must be the same.


def _words(command: str) -> set[str]:
    """The options that the Dockerfile gives to a command."""
    line = next(each for each in _logical_lines() if command in each)
    return {word for word in line[line.index(command) :].split(" && ")[0].split() if word.startswith("--")}


def _logical_lines() -> list[str]:
    return re.sub(r"\\\n\s*", " ", TEXT).splitlines()


def _texts(module: object) -> set[str]:
    """All words that stand in a module as texts."""
    tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
    return {
        each.value
        for each in ast.walk(tree)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def test_packages_are_installed_from_the_same_lock_file_with_the_same_care() -> None:
    assert f"COPY {build_images.LOCK.name} /build/" in TEXT
    assert f"-r /build/{build_images.LOCK.name}" in TEXT
    asked = _words("pip install") - {"--no-cache-dir"}
    assert {"--require-hashes", "--no-deps", "--only-binary", "--no-compile"} <= asked <= _texts(packages)
    assert _words("python -m compileall") <= _texts(packages)


def test_every_package_of_the_lock_file_has_a_hash() -> None:
    pinned = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", build_images.LOCK.read_text(), flags=re.M).strip())
    assert len(pinned) > 10
    assert [each.split()[0] for each in pinned if "==" not in each or "--hash=sha256:" not in each] == []


def test_the_native_module_is_built_as_the_lock_file_says_and_stripped_alike() -> None:
    assert "COPY Cargo.toml Cargo.lock" in TEXT
    assert "--locked" in _words("cargo build")
    assert (ROOT / "Cargo.lock").exists()
    assert _words("strip ") <= _texts(packages)
    needed = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    found = re.search(r"^ARG RUST=rust:([\d.]+)-", TEXT, re.M)
    assert found
    assert [*map(int, found[1].split("."))] >= [*map(int, needed.split(".")[:2])]


def test_both_stand_on_the_same_python_and_suite_with_the_same_packages_of_it() -> None:
    assert f"ARG PYTHON=python:{debian_root.PYTHON}-slim-{debian_root.SUITE}\n" in TEXT
    base = TEXT[TEXT.index(" AS base") :]
    installed = re.findall(r"--no-install-recommends ((?:[a-z0-9.+-]+ )+)&&", base)
    # The rest is in Docker's image of Python as it is.
    assert set("".join(installed).split()) == set(debian_root.PACKAGES) - {
        "python3",
        "ca-certificates",
        "tzdata",
    }


def test_both_run_the_same_command_in_the_same_environment_as_the_same_user() -> None:
    (said,) = re.findall(r"^ENV (PYTHONPATH=.*)$", TEXT, re.M)
    told = dict(word.split("=") for word in said.split())
    assert {key: value for key, value in told.items() if key != "PYTHONPATH"} == build_images.ENVIRONMENT
    assert f"ENTRYPOINT {json.dumps(list(build_images.ENTRYPOINT))}" in TEXT
    assert {"deploy", "images", "headrace", "install_package.py"} <= _texts(packages)
    (user,) = re.findall(r"^USER (\S+)$", TEXT, re.M)
    assert user == build_images.NOBODY
    pod = named(render(), "Deployment", "headrace-operator")["spec"]["template"]["spec"]["securityContext"]
    assert f"{pod['runAsUser']}:{pod['runAsGroup']}" == user


def test_nothing_is_fetched_but_by_package_managers_and_nothing_is_left_of_them() -> None:
    assert not re.search(r"^ADD |curl|wget|git clone", TEXT, re.M)
    for line in _logical_lines():
        if "apt-get install" in line:
            assert "rm -rf /var/lib/apt/lists/*" in line
