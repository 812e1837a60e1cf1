from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.uris import SCHEMES, normal_endpoint, parse_address
from headrace.errors import ConfigError

HERE = Path("/work-folder")


@pytest.mark.parametrize(
    ("text", "kind", "fields", "name"),
    [
        ("s3://bucket", "s3", {"bucket": "bucket", "prefix": ""}, "bucket"),
        ("s3://bucket/", "s3", {"bucket": "bucket", "prefix": ""}, "bucket"),
        ("S3://bucket/a/b/", "s3", {"bucket": "bucket", "prefix": "a/b"}, "b"),
        ("s3a://bucket/a", "s3", {"bucket": "bucket", "prefix": "a"}, "a"),
        ("s3://bucket/a%20b?c#d", "s3", {"bucket": "bucket", "prefix": "a%20b?c#d"}, "a%20b?c#d"),
        ("s3://bucket/with@sign", "s3", {"bucket": "bucket", "prefix": "with@sign"}, "with@sign"),
        ("oss://bucket/dir", "oss", {"bucket": "bucket", "prefix": "dir"}, "dir"),
        (
            "oss://chengli-sh-test.oss-cn-shanghai-internal.aliyuncs.com/xxx/k8s_c1",
            "oss",
            {
                "bucket": "chengli-sh-test",
                "prefix": "xxx/k8s_c1",
                "endpoint": "https://oss-cn-shanghai-internal.aliyuncs.com",
            },
            "k8s_c1",
        ),
        (
            "hdfs://namenode:8020/data",
            "webhdfs",
            {"endpoint": "http://namenode:9870", "directory": "/data"},
            "data",
        ),
        ("hdfs://namenode", "webhdfs", {"endpoint": "http://namenode:9870", "directory": "/"}, "namenode"),
        ("webhdfs://nn:14000/x", "webhdfs", {"endpoint": "http://nn:14000", "directory": "/x"}, "x"),
        ("swebhdfs://nn:9871/x", "webhdfs", {"endpoint": "https://nn:9871", "directory": "/x"}, "x"),
        ("https://host/a%20b/", "http", {"endpoint": "https://host", "directory": "/a%20b/"}, "a b"),
        ("http://[::1]:8080", "http", {"endpoint": "http://[::1]:8080", "directory": "/"}, "[::1]"),
        ("nfs://filer/export/a/", "nfs", {"server": "filer", "directory": "/export/a"}, "a"),
        (
            "nfs://filer:20490/./a//b c",
            "nfs",
            {"server": "filer", "directory": "/a/b c", "port": "20490"},
            "b c",
        ),
        ("nfs://[fd00::1]/a", "nfs", {"server": "[fd00::1]", "directory": "/a"}, "a"),
        ("nfs://filer", "nfs", {"server": "filer", "directory": "/"}, "filer"),
        ("local:///data/x", "local", {"directory": "/data/x"}, "x"),
        ("file:///data/x/", "local", {"directory": "/data/x"}, "x"),
        ("/data/../y//z", "local", {"directory": "/y/z"}, "z"),
        ("./x", "local", {"directory": "/work-folder/x"}, "x"),
        ("..", "local", {"directory": "/"}, "root"),
        ("/data/a=b@c", "local", {"directory": "/data/a=b@c"}, "a=b@c"),
    ],
)
def test_address_is_taken_apart(text: str, kind: str, fields: dict[str, str], name: str) -> None:
    address = parse_address(text, working_directory=HERE)
    assert (address.kind, dict(address.fields), address.name) == (kind, fields, name)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("s3://", "names no bucket", "s3://bucket/prefix"),
        ("s3:///a", "names no bucket", "s3://bucket/prefix"),
        ("s3://-x/a", "cannot be the name of a bucket", "s3://bucket/prefix"),
        ("oss://Bucket/a", "cannot be the name of a bucket", "oss://bucket/prefix"),
        ("s33://bucket", "unknown kind of origin 's33://'", "did you mean s3"),
        ("gs://bucket", "unknown kind of origin 'gs://'", ""),
        ("pvc://claim", "needs Kubernetes", "mount the volume"),
        ("s3:/bucket", "is not an address", "write s3://bucket"),
        ("bucket/x", "is not an address", "./bucket/x"),
        ("local://data", "no absolute path", "three slashes"),
        ("http:///x", "names no server", "http://host"),
        ("http://host:99999/", "names no server", "http://host"),
        ("https://host/x?y=1", "no query", "https://host/path/"),
        ("hdfs://", "names no server", "hdfs://host"),
        ("nfs:///export", "names no server", "nfs://host"),
        ("nfs://filer/a/../b", "has a ..", "from the export on"),
        ("", "is not an address", ""),
    ],
)
def test_wrong_address_says_what_to_write(text: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_address(text, working_directory=HERE)
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_credentials_in_an_address_are_refused_and_not_repeated(scheme: str) -> None:
    with pytest.raises(ConfigError, match="carries credentials") as caught:
        parse_address(f"{scheme}://AKIAKEY:PLANTED-SECRET@host/x", working_directory=HERE)
    assert "PLANTED" not in f"{caught.value}{caught.value.hint}{caught.value!r}"
    assert "AKIAKEY" not in f"{caught.value}{caught.value.hint}"


@given(st.text(max_size=30))
def test_any_text_gives_an_address_or_a_config_error(text: str) -> None:
    for candidate in (
        text,
        f"s3://{text}",
        f"oss://{text}",
        f"https://{text}",
        f"hdfs://{text}",
        f"nfs://{text}",
        f"/{text}",
    ):
        try:
            parse_address(candidate, working_directory=HERE)
        except ConfigError as error:
            assert str(error)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("oss-cn-x.aliyuncs.com", "https://oss-cn-x.aliyuncs.com"),
        ("http://127.0.0.1:9000/", "http://127.0.0.1:9000"),
        ("HTTPS://Host", "https://Host"),
    ],
)
def test_endpoint_gets_its_scheme(text: str, endpoint: str) -> None:
    assert normal_endpoint(text) == endpoint


@pytest.mark.parametrize("text", ["", "ftp://x", "http://", "http://x/y", "http://x:port", "x?y"])
def test_wrong_endpoint_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a server"):
        normal_endpoint(text)


@pytest.mark.parametrize(
    ("kind", "text", "endpoint"),
    [
        ("s3", "minio:9000", "minio:9000"),
        ("oss", "10.0.0.1:80", "10.0.0.1:80"),
        ("s3", "minio:443", "https://minio:443"),
        ("s3", "s3.example.org", "https://s3.example.org"),
        ("s3", "https://minio:9000", "https://minio:9000"),
        ("http", "minio:9000", "https://minio:9000"),
        ("webhdfs", "namenode:9870", "http://namenode:9870"),
    ],
)
def test_a_scheme_that_nobody_said_stays_open_where_it_can_be_found_out(
    kind: str, text: str, endpoint: str
) -> None:
    assert normal_endpoint(text, kind=kind) == endpoint
