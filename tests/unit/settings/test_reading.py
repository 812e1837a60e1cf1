"""The settings of a role: command line over environment over file over default."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.settings.cache_words import parse_cache
from headrace.settings.environment import HEADRACE_VARIABLES, Environment
from headrace.settings.reading import SHARED_VARIABLES, role_settings, settable_by_variable, variable_of
from headrace.settings.roles import (
    ROLES,
    LoadSettings,
    MasterSettings,
    MemberSettings,
    RoleSettings,
    WorkerSettings,
)

NOTHING = Environment({})


def write(folder: Path, text: str, name: str = "role.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_what_is_nearer_weighs_more(tmp_path: Path) -> None:
    file = write(tmp_path, "id: from-file\nnode: from-file\nlisten: from-file:1\nmemory: 1Gi\n")
    environment = Environment(
        {"HEADRACE_WORKER_ID": "from-environment", "HEADRACE_WORKER_NODE": "from-environment"}
    )
    settings, warnings = role_settings(WorkerSettings, file, environment, id="given", listen=None)
    assert (settings.id, settings.node, settings.listen, settings.memory, settings.eviction) == (
        "given",
        "from-environment",
        "from-file:1",
        "1Gi",
        "scan-resistant",
    )
    assert warnings == []


def test_lists_numbers_and_switches_come_from_variables() -> None:
    environment = Environment(
        {
            "HEADRACE_WORKER_CACHE": "/a:1Gi  /b,/c:2Gi:SSD",
            "HEADRACE_WORKER_HIGH": "0.9",
            "HEADRACE_WORKER_MASTER": "http://own:1",
            "HEADRACE_MASTER": "http://all:1",
            "HEADRACE_TOKEN_FILE": "/token",
            "HEADRACE_LOAD_VERIFY": "true",
            "HEADRACE_WORKER_PORT": "tcp://10.0.0.1:1",  # Kubernetes' own, for a service named so
        }
    )
    worker, _ = role_settings(WorkerSettings, None, environment)
    assert worker.cache == (parse_cache("/a:1Gi"), parse_cache("/b,/c:2Gi:SSD"))
    assert (worker.high, worker.master, worker.token_file) == (0.9, "http://own:1", Path("/token"))
    load, _ = role_settings(LoadSettings, None, environment)
    assert (load.verify, load.master) == (True, "http://all:1")


@pytest.mark.parametrize(
    ("role", "text", "message", "hint"),
    [
        (WorkerSettings, "id: w\ncash: []\n", "line 2: unknown setting 'cash'", "did you mean 'cache'?"),
        (
            WorkerSettings,
            "tls:\n  authority: a\n  certifcate: b\n",
            "line 3: unknown setting 'tls.certifcate'",
            "did you mean 'certificate'?",
        ),
        (
            MasterSettings,
            "origins:\n- path: a\n  orign: s3://b\n",
            "line 2: setting 'origins.0.origin': is missing",
            None,
        ),
        (
            MasterSettings,
            "origins:\n- origin: s3://b\n  secretfile: x\n",
            "line 3: unknown setting 'origins.0.secretfile'",
            "did you mean 'secret_file'?",
        ),
        (
            MasterSettings,
            "\nreplicas: many\n",
            "line 2: setting 'replicas': a whole number is needed",
            None,
        ),
        (MasterSettings, "cluster: a b\n", "line 1: setting 'cluster': has characters, or a length", None),
        (
            WorkerSettings,
            "tls: {authority: a, key: b}\n",
            "line 1: setting 'tls': certificate and key go together",
            None,
        ),
        (
            LoadSettings,
            "evict: true\npin: true\n",
            ": evict, unpin and a load (pin, verify) are different orders: give one",
            None,
        ),
        (MemberSettings, "zzzz: 1\n", "line 1: unknown setting 'zzzz'", "known are token_file, "),
    ],
)
def test_a_mistake_is_told_with_line_and_nearest_name(
    tmp_path: Path, role: type[RoleSettings], text: str, message: str, hint: str | None
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        role_settings(role, file, NOTHING)
    assert str(raised.value).startswith(f"{file}")
    assert message in str(raised.value)
    assert (raised.value.hint or "").startswith(hint or "")


def test_a_mistake_on_the_command_line_names_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        role_settings(MasterSettings, write(tmp_path, "replicas: 2\n"), NOTHING, cluster="-")
    assert str(raised.value).startswith("setting 'cluster': ")


def test_a_credential_is_not_repeated(tmp_path: Path) -> None:
    file = write(tmp_path, "origins:\n- origin: s3://b\n  options: {aws.secretKey: [PLANTED]}\n")
    with pytest.raises(ConfigError) as raised:
        role_settings(MasterSettings, file, NOTHING)
    assert "PLANTED" not in f"{raised.value} {raised.value.hint}"
    good, _ = role_settings(
        MasterSettings,
        write(tmp_path, "origins:\n- origin: s3://b\n  options: {aws.secretKey: PLANTED}\n"),
        NOTHING,
    )
    assert "PLANTED" not in repr(good)


def test_a_jindofs_file_stands_for_origins_and_mountpoint(tmp_path: Path) -> None:
    text = "jfs.namespaces: test\njfs.namespaces.test.mode :  cache\njfs.namespaces.test.oss.uri :  oss://b.h/p\n"
    file = write(tmp_path, text, "jindofs.properties")
    master, _ = role_settings(MasterSettings, file, NOTHING, replicas=2)
    assert [(origin.path, origin.origin) for origin in master.origins] == [("test", "oss://b.h/p")]
    assert master.replicas == 2
    worker, _ = role_settings(WorkerSettings, file, NOTHING)
    assert worker.origins == master.origins
    mount, _ = role_settings(MemberSettings, file, NOTHING)
    assert mount.mountpoint == Path("/mnt/jfs")
    elsewhere, _ = role_settings(MemberSettings, file, Environment({"HEADRACE_MOUNT_MOUNTPOINT": "/x"}))
    assert elsewhere.mountpoint == Path("/x")


def test_settings_are_frozen_and_described() -> None:
    for name, model in ROLES.items():
        assert model.model_config["frozen"]
        assert model.model_config["extra"] == "forbid"
        for field, about in model.model_fields.items():
            assert about.description, f"{name}.{field}"


def test_no_two_variables_are_the_same() -> None:
    made = [
        variable_of(role, field) for role, model in ROLES.items() for field in settable_by_variable(model)
    ]
    assert len(made) == len(set(made))
    assert not set(made) & set(HEADRACE_VARIABLES)
    assert set(SHARED_VARIABLES.values()) <= set(HEADRACE_VARIABLES)
