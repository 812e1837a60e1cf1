"""What the machine has is used for who may have it: a person on it, and not who only declares a dataset."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.role_settings import settings_of_role
from headrace.cli.terminal import terminal
from headrace.engine.key_sources import environment_of, read_again, sourced
from headrace.engine.profiles import Profiles
from headrace.errors import ConfigError
from headrace.roles.specs.origins import resolve_origins
from headrace.settings.environment import Environment
from headrace.settings.origins import OssOrigin, S3Origin
from headrace.settings.roles import CopySettings, MasterSettings, OriginSettings, RoleSettings, WorkerSettings


@pytest.fixture
def machine(tmp_path: Path) -> Environment:
    """A machine with keys in every place that is looked at."""
    (tmp_path / "credentials").write_text(
        "[node]\naws_access_key_id = NODE\naws_secret_access_key = node-secret\n"
    )
    return Environment(
        {
            "AWS_ACCESS_KEY_ID": "NODE",
            "AWS_SECRET_ACCESS_KEY": "node-secret",
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
            "AWS_PROFILE": "node",
            "OSS_ACCESS_KEY_ID": "NODE",
            "OSS_ACCESS_KEY_SECRET": "node-secret",
            "HOME": str(tmp_path),
        }
    )


WORDS = ["s3://bucket/a", "oss://bucket.oss-cn-shanghai.aliyuncs.com/a"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("options", [{}, {"anonymous": "false"}])
def test_a_bucket_without_keys_of_its_own_is_asked_anonymously(
    machine: Environment, word: str, options: dict[str, str]
) -> None:
    (mount,) = sourced([word], options, None, machine, machine_credentials=False).origins.mounts
    assert isinstance(mount.origin, S3Origin | OssOrigin)
    assert mount.origin.anonymous
    assert mount.origin.access_key_id is None
    assert "NODE" not in repr(mount) + mount.model_dump_json()


@pytest.mark.parametrize("word", WORDS)
def test_a_person_on_the_machine_uses_what_it_has(machine: Environment, word: str) -> None:
    (mount,) = sourced([word], {}, None, machine).origins.mounts
    assert isinstance(mount.origin, S3Origin | OssOrigin)
    assert not mount.origin.anonymous
    key = mount.origin.access_key_id
    assert key is not None
    assert key.get_secret_value() == "NODE"


def test_the_keys_of_a_dataset_s_own_secret_are_used_and_renewed(
    machine: Environment, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    for name, value in (("access-key-id", "OWN"), ("secret-access-key", "own-secret")):
        (secret / name).write_text(value)
        (secret / name).chmod(0o600)
    found = sourced(["s3://bucket"], {}, secret, machine, machine_credentials=False)
    (mount,) = found.origins.mounts
    assert isinstance(mount.origin, S3Origin)
    assert mount.origin.access_key_id
    assert mount.origin.access_key_id.get_secret_value() == "OWN"
    assert not mount.origin.anonymous
    for path in secret.iterdir():
        path.unlink()
    (source,) = found.keys
    assert environment_of(source, machine).variables == {}
    (renewed,) = read_again(source, machine, Profiles()).values()
    assert renewed["access_key_id"] is None


def test_an_option_reads_no_variable_of_the_machine(machine: Environment) -> None:
    options = {"access-key-id": "env:AWS_ACCESS_KEY_ID", "secret-access-key": "mine"}
    with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID"):
        sourced(["s3://bucket"], options, None, machine, machine_credentials=False)


@pytest.mark.parametrize(
    ("role", "model"), [("MASTER", MasterSettings), ("WORKER", WorkerSettings), ("COPY", CopySettings)]
)
def test_a_role_is_told_by_its_settings(machine: Environment, role: str, model: type[RoleSettings]) -> None:
    told = Environment({**machine.variables, f"HEADRACE_{role}_MACHINE_CREDENTIALS": "false"})
    settings = settings_of_role(model, None, told)
    assert getattr(settings, "machine_credentials", None) is False
    origins = (OriginSettings(origin="s3://bucket"),)
    (mount,) = resolve_origins(origins, told, terminal(), machine_credentials=False).mounts
    assert isinstance(mount.origin, S3Origin)
    assert mount.origin.anonymous
    assert getattr(settings_of_role(model, None, machine), "machine_credentials", None) is True
