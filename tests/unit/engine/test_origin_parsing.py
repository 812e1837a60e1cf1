from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from headrace.engine.origin_parsing import parse_origins
from headrace.errors import ConfigError
from headrace.settings.environment import Environment
from headrace.settings.origin_options import OPTIONS, is_secret

EMPTY = Environment({"HOME": "/nonexistent"})


def fields(
    word: str, options: dict[str, str] | None = None, environment: Environment = EMPTY
) -> dict[str, Any]:
    """What one origin came to, without defaults, credentials in clear."""
    (mount,) = parse_origins([word], options or {}, environment, working_directory=Path("/here")).mounts
    found = mount.origin.model_dump(exclude_defaults=True) | ({"strict": True} if mount.strict else {})
    return {
        key: value.get_secret_value() if isinstance(value, SecretStr) else value
        for key, value in found.items()
    }


def test_seed_dataset_of_jindo_is_understood() -> None:
    options = {
        "fs.oss.endpoint": "oss-cn-shanghai.aliyuncs.com",
        "fs.oss.accessKeyId": "id",
        "fs.oss.accessKeySecret": "secret",
    }
    assert fields("oss://imagenet/train", options) == {
        "bucket": "imagenet",
        "prefix": "train",
        "endpoint": "https://oss-cn-shanghai.aliyuncs.com",
        "access_key_id": "id",
        "access_key_secret": "secret",
    }


def test_seed_address_of_jindofs_holds_its_endpoint() -> None:
    found = fields("oss://xxx-sh-test.oss-cn-shanghai-internal.aliyuncs.com/xxx/k8s_c1")
    assert found["endpoint"] == "https://oss-cn-shanghai-internal.aliyuncs.com"
    assert found["bucket"] == "xxx-sh-test"


def test_alluxio_options_of_s3_are_understood() -> None:
    options = {
        "alluxio.underfs.s3.endpoint": "http://10.0.0.1:9000",
        "alluxio.underfs.s3.disable.dns.buckets": "true",
        "alluxio.underfs.s3.endpoint.region": "here",
        "aws.accessKeyId": "id",
        "aws.secretKey": "secret",
    }
    assert fields("s3://b/p", options) == {
        "bucket": "b",
        "prefix": "p",
        "endpoint": "http://10.0.0.1:9000",
        "region": "here",
        "path_style": True,
        "access_key_id": "id",
        "secret_access_key": "secret",
    }


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_every_spelling_sets_its_field(kind: str) -> None:
    word = {
        "s3": "s3://b",
        "oss": "oss://bucket.endpoint.com",
        "webhdfs": "hdfs://h/d",
        "http": "http://h/d",
        "nfs": "nfs://h/d",
        "local": "/d",
    }[kind]
    for option in OPTIONS[kind]:
        for spelling in option.spellings if option.field != "exclude" else ():
            value = "true" if option.flag else "https://value" if option.field == "endpoint" else "value"
            if kind == "nfs" and not option.flag:
                value = "1234"
            options = {spelling: value}
            if option.field in ("access_key_id", "secret_access_key", "access_key_secret"):
                for other in OPTIONS[kind]:
                    if other.field != option.field and other.field in (
                        "access_key_id",
                        "secret_access_key",
                        "access_key_secret",
                    ):
                        options[other.spellings[0]] = "other"
            expected = True if option.flag else 1234 if kind == "nfs" else value
            assert fields(word, options)[option.field] == expected, spelling


def test_the_port_of_an_nfs_address_yields_to_the_option() -> None:
    assert fields("nfs://filer:20490/a") == {"server": "filer", "port": 20490, "directory": "/a"}
    assert fields("nfs://filer:20490/a", {"nfs.port": "2049"})["port"] == 2049


@pytest.mark.parametrize("value", ["root", "-1", "4294967296", ""])
def test_a_user_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"nfs\.uid"):
        fields("nfs://filer/a", {"nfs.uid": value})


def test_environment_of_the_cloud_is_used_and_options_win() -> None:
    environment = Environment(
        {
            "HOME": "/nonexistent",
            "AWS_ACCESS_KEY_ID": "env-id",
            "AWS_SECRET_ACCESS_KEY": "env-secret",
            "AWS_ENDPOINT_URL": "http://general:1",
            "AWS_ENDPOINT_URL_S3": "http://special:1",
            "AWS_DEFAULT_REGION": "env-region",
        }
    )
    found = fields("s3://b", {"region": "given"}, environment)
    assert found["access_key_id"] == "env-id"
    assert found["endpoint"] == "http://special:1"
    assert found["region"] == "given"


def write_aws_files(home: Path) -> None:
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = d-id\naws_secret_access_key = d-secret\n"
        "[work]\naws_access_key_id = w-id\naws_secret_access_key = w-secret\naws_session_token = w-token\n"
    )
    (home / ".aws" / "config").write_text("[default]\nregion = d-region\n[profile work]\nregion = w-region\n")


def test_aws_profile_gives_credentials_and_region(tmp_path: Path) -> None:
    write_aws_files(tmp_path)
    default = fields("s3://b", environment=Environment({"HOME": str(tmp_path)}))
    assert (default["access_key_id"], default["region"]) == ("d-id", "d-region")
    work = fields("s3://b", environment=Environment({"HOME": str(tmp_path), "AWS_PROFILE": "work"}))
    assert (work["access_key_id"], work["session_token"], work["region"]) == ("w-id", "w-token", "w-region")


def test_key_of_the_environment_never_goes_with_the_token_of_a_file(tmp_path: Path) -> None:
    write_aws_files(tmp_path)
    environment = Environment(
        {"HOME": str(tmp_path), "AWS_PROFILE": "work", "AWS_ACCESS_KEY_ID": "e", "AWS_SECRET_ACCESS_KEY": "s"}
    )
    found = fields("s3://b", environment=environment)
    assert found["secret_access_key"] == "s"
    assert "session_token" not in found


def test_missing_aws_profile_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'absent'"):
        fields("s3://b", environment=Environment({"HOME": str(tmp_path), "AWS_PROFILE": "absent"}))


@pytest.mark.parametrize(
    ("endpoint", "path_style"),
    [
        ("http://127.0.0.1:9000", True),
        ("https://minio.example.com", True),
        ("https://s3.eu-west-1.amazonaws.com", False),
        ("https://oss-cn-x.aliyuncs.com", False),
    ],
)
def test_bucket_stands_where_the_server_can_find_it(endpoint: str, path_style: bool) -> None:
    assert fields("s3://b", {"endpoint": endpoint}).get("path_style", False) is path_style
    assert fields("s3://b", {"endpoint": endpoint, "path-style": "false"}).get("path_style", False) is False


def test_anonymous_drops_credentials() -> None:
    environment = Environment({"HOME": "/x", "AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s"})
    assert fields("s3://b", {"anonymous": "true"}, environment) == {"bucket": "b", "anonymous": True}


@pytest.mark.parametrize(
    ("word", "options", "message", "hint"),
    [
        ("s3://b", {"fs.oss.endpont": "x"}, "unknown option 'fs.oss.endpont'", "did you mean"),
        (
            "oss://bkt",
            {"fs.oss.endpont": "x"},
            "unknown option 'fs.oss.endpont'",
            "did you mean 'fs.oss.endpoint'?",
        ),
        ("/data", {"endpoint": "x"}, "unknown option 'endpoint'", "ignore-change-times"),
        ("oss://bkt", {}, "needs the endpoint", "fs.oss.endpoint"),
        ("s3://b", {"path-style": "maybe"}, "neither true nor false", "true or false"),
        ("s3://b", {"aws.accessKeyId": "i"}, "half of its credentials", "aws.secretKey"),
        ("s3://b", {"region": "a", "aws.region": "b"}, "says again", ""),
        ("s3://b", {"x:region": "a"}, "origin 'x' that is not there", ""),
        ("s3://b", {"endpoint": "not a host"}, "is not the address of a server", "https://host"),
    ],
)
def test_wrong_option_is_one_clear_error(word: str, options: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fields(word, options)
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_several_origins_stand_under_their_names() -> None:
    words = ["train=s3://a", "images=oss://bkt.oss.example.com/i", "raw=/data"]
    origins = parse_origins(words, {"train:region": "r1", "endpoint": "http://1.2.3.4"}, EMPTY)
    assert [mount.path for mount in origins.mounts] == ["train", "images", "raw"]
    assert origins.name == "train-images-raw"
    assert origins.mounts[0].origin.region == "r1"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no origin"),
        (["s3://a", "s3://b"], "need names"),
        (["x=s3://a", "x=s3://b"], "two origins are named 'x'"),
    ],
)
def test_wrong_set_of_origins_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_origins(words, {}, EMPTY)


def test_credentials_never_show_in_the_text_of_an_origin() -> None:
    options = {option.spellings[0]: "PLANTED-SECRET" for option in OPTIONS["s3"] if option.secret}
    (mount,) = parse_origins(["s3://b"], options, EMPTY).mounts
    assert "PLANTED" not in f"{mount!r} {mount} {mount.model_dump()} {mount.model_dump_json()}"


def test_unknown_names_that_look_like_credentials_count_as_such() -> None:
    assert is_secret("fs.oss.accessKeySecret")
    assert is_secret("fs.new.secretThing")
    assert not is_secret("fs.oss.endpoint")


def test_keys_that_are_given_never_go_with_the_token_of_a_profile(tmp_path: Path) -> None:
    write_aws_files(tmp_path)
    environment = Environment({"HOME": str(tmp_path), "AWS_PROFILE": "work"})
    found = fields("s3://b", {"access-key-id": "i", "secret-access-key": "s"}, environment)
    assert (found["access_key_id"], found["secret_access_key"], found["region"]) == ("i", "s", "w-region")
    assert "session_token" not in found


@pytest.mark.parametrize("kind", ["s3", "oss"])
def test_an_endpoint_without_a_scheme_is_that_of_a_server_with_the_bucket_in_its_path(kind: str) -> None:
    found = fields(f"{kind}://bucket", {"endpoint": "minio:9000"})
    assert (found["endpoint"], found["path_style"]) == ("minio:9000", True)


def test_whoever_pays_must_be_known() -> None:
    assert fields("s3://b", {"requester-pays": ""})["requester_pays"] is True
    with pytest.raises(ConfigError, match="requester-pays"):
        fields("s3://b", {"requester-pays": "", "anonymous": ""})


def patterns(options: dict[str, str], *, exclude: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """The patterns of the origins `one` and `other`."""
    found = parse_origins(["one=/a", "other=s3://b"], options, EMPTY, exclude=exclude).mounts
    return {mount.path: mount.exclude.patterns for mount in found}


def test_patterns_of_all_come_before_those_of_one_origin() -> None:
    options = {"exclude": "# comment\n*.tmp\n\n/x/", "other:exclude": "!keep.tmp"}
    assert patterns(options, exclude=("@eaDir", "*.o")) == {
        "one": ("*.tmp", "/x/", "@eaDir", "*.o"),
        "other": ("*.tmp", "/x/", "@eaDir", "*.o", "!keep.tmp"),
    }
    assert patterns({}) == {"one": (), "other": ()}


def test_a_pattern_without_a_meaning_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match=r"option 'exclude': the pattern '\[a' opens a bracket"):
        patterns({"one:exclude": "*.tmp\n[a"})
