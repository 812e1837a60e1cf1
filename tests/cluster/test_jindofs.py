"""A JindoFS properties file starts the same cluster; each namespace is a folder of its name."""

from __future__ import annotations

from headrace.testing.cluster.content import Content, make_files
from headrace.testing.oss_objects import OssBucket
from headrace.testing.oss_server import DEFAULT_KEYS, OssServer

NAMESPACE = """\
jfs.namespaces.{name}.mode :  cache
jfs.namespaces.{name}.oss.uri :  oss://{bucket}/{prefix}
jfs.namespaces.{name}.oss.endpoint :  {endpoint}
jfs.namespaces.{name}.oss.access.key :  {key}
jfs.namespaces.{name}.oss.access.secret :  {secret}
"""


def test_namespaces_of_a_properties_file_appear_below_the_mountpoint(make_cluster, tmp_path) -> None:
    cluster = make_cluster(2, {}, start=False)
    images, labels = make_files(6, 200_000, folder="k8s_c1"), make_files(3, 1000, folder="labels")
    with OssServer(address=cluster.bed.host_address) as oss:
        oss.buckets["train"] = bucket_of(images)
        oss.buckets["more"] = bucket_of(labels)
        keys = {
            "endpoint": oss.endpoint,
            "key": DEFAULT_KEYS.access_key_id,
            "secret": DEFAULT_KEYS.access_key_secret,
        }
        path = tmp_path / "jindofs.properties"
        path.write_text(
            "jfs.namespaces: test,labels\n"
            + NAMESPACE.format(name="test", bucket="train", prefix="k8s_c1", **keys)
            + NAMESPACE.format(name="labels", bucket="more", prefix="labels", **keys)
        )
        path.chmod(0o600)
        cluster.properties = path
        cluster.start()
        for node in cluster.bed.nodes:
            assert sorted(one.name for one in cluster.mountpoint(node).iterdir()) == ["labels", "test"]
            reading = cluster.reading(node, "--drop")
            reading.finish()
            assert not expected(images, labels).wrong(reading.files())
        assert oss.body_bytes < 1.5 * sum(map(len, images.values())), "each node fetched for itself"


def bucket_of(files: dict[str, bytes]) -> OssBucket:
    bucket = OssBucket()
    for name, data in files.items():
        bucket.put(name, data)
    return bucket


def expected(images: dict[str, bytes], labels: dict[str, bytes]) -> Content:
    """What must be seen below the mountpoint."""
    content = Content()
    content.remember({name.replace("k8s_c1/", "test/", 1): data for name, data in images.items()})
    content.remember(labels)
    return content
