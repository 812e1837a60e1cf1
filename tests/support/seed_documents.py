"""The documents that Headrace follows, command by command as printed there: one suite for every kind of nodes.

What differs from the documents is buckets, endpoints and keys, and sizes of data, which are true.
"""

from __future__ import annotations

import re

import pytest
from printed import AGE, SIZE, check
from seed_backends import NFS_VOLUME, Desk, volume

from headrace.testing import nfs_server
from headrace.testing.nfs_server import NfsServer
from headrace.testing.oss_server import OssServer
from headrace.testing.s3_server import S3Server

LACKING = nfs_server.lacking()


def field(name: str, value: str) -> str:
    """A line of `describe`."""
    return f"{name}: +{value}"


HEAD_LINES = (
    *(field("Name", "imagenet"), field("Namespace", "default")),
    *(field("Labels", "<none>"), field("Annotations", "<none>")),
    field("API Version", re.escape("data.fluid.io/v1alpha1")),
    *("Metadata:", "Spec:", "Status:", "Cache States:", "Conditions:", "Events:"),
    *(field("Cached", r"0\.00B"), field("Cached Percentage", r"0\.0%"), field("Cache Capacity", SIZE)),
)
RUNTIME_LINES = (
    *HEAD_LINES,
    field("Kind", "AlluxioRuntime"),
    *(
        field(f"{time} {role} Number Scheduled", count)
        for time in ("Current", "Desired")
        for role, count in (("Fuse", "4"), ("Master", "1"), ("Worker", "4"))
    ),
    field("Fuse Number Available", "4"),
)
DATASET_LINES = (
    *HEAD_LINES,
    field("Kind", "Dataset"),
    field("Last Transition Time", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    field("Last Update Time", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    *(field("Message", r"The ddc runtime is ready\."), field("Reason", "DatasetReady")),
    *(field("Status", "True"), field("Type", "Ready"), field("Phase", "Bound"), "Runtimes:"),
    *(field("Category", "Accelerate"), field("Type", "alluxio"), field("Ufs Total", SIZE)),
)


DATASET = {
    "NAME": "imagenet",
    "UFS TOTAL SIZE": SIZE,
    "CACHED": r"0\.00B",
    "CACHE CAPACITY": SIZE,
    "CACHED PERCENTAGE": r"0\.0%",
    "PHASE": "Bound",
    "AGE": AGE,
}
RUNTIME = {
    "NAME": "imagenet",
    **dict.fromkeys(("MASTER PHASE", "WORKER PHASE", "FUSE PHASE"), "Ready"),
    "AGE": AGE,
}
WIDE_RUNTIME = {
    "NAME": "imagenet",
    **{"READY MASTERS": "1", "DESIRED MASTERS": "1", "MASTER PHASE": "Ready"},
    **{"READY WORKERS": "4", "DESIRED WORKERS": "4", "WORKER PHASE": "Ready"},
    **{"READY FUSES": "4", "DESIRED FUSES": "4", "FUSE PHASE": "Ready"},
    **{"API GATEWAY": "", "AGE": AGE},
}


class SeedDocuments:
    """The suite. A class of a test module inherits it, and has the fixtures `desk`, `oss`, `s3` and `nfs`."""

    # For every kind of nodes; on Kubernetes it is the one that `make test` shows.
    @pytest.mark.short
    def test_000_oss_with_a_secret_and_a_jindo_runtime(self, desk: Desk, oss: OssServer) -> None:
        words = {"<oss_bucket>/<bucket_dir>": "imagenet-bucket/imagenet", "<oss_endpoint>": oss.endpoint}
        keys = {
            "fs.oss.accessKeyId: xxx": f"fs.oss.accessKeyId: {oss.keys.access_key_id}",
            "fs.oss.accessKeySecret: xxx": f"fs.oss.accessKeySecret: {oss.keys.access_key_secret}",
        }
        desk.write("dataset.yaml", "000-dataset.yaml", **words, **keys)
        desk.write("runtime.yaml", "000-runtime.yaml")
        desk.say("create -f dataset.yaml")
        desk.say("create -f runtime.yaml")
        desk.wait_until_ready("jindoruntime", "imagenet")

        (datasets,) = desk.tables("get dataset")
        check(datasets, {**DATASET, "CACHE CAPACITY": r"648\.00GiB"})
        (runtimes,) = desk.tables("get jindoruntime")
        check(runtimes, RUNTIME)
        desk.check_volumes(volume("imagenet"))
        desk.read("imagenet", "imagenet")

        desk.delete("imagenet")
        desk.expect_nothing("imagenet")

    def test_001_oss_with_the_endpoint_in_the_address_and_caches_in_memory(
        self, desk: Desk, oss: OssServer
    ) -> None:
        host = oss.endpoint.removeprefix("http://")
        words = {
            "chengli-sh-test.oss-cn-shanghai-internal.aliyuncs.com": f"imagenet-files.{host}",
            # A real endpoint speaks TLS; this one has to be told.
            "fs.oss.accessKeyId: xxx": f"fs.oss.accessKeyId: {oss.keys.access_key_id}\n"
            f"        fs.oss.endpoint: {oss.endpoint}",
            "fs.oss.accessKeySecret: xxx": f"fs.oss.accessKeySecret: {oss.keys.access_key_secret}",
        }
        desk.write("dataset.yaml", "001-dataset.yaml", **words)
        desk.say("create -f dataset.yaml")
        desk.wait_until_ready("alluxioruntime", "imagenet")

        lines = {line.strip() for line in desk.say("describe alluxioruntime imagenet").splitlines()}
        for line in RUNTIME_LINES:
            assert any(re.fullmatch(line, each) for each in lines), line
        lines = {line.strip() for line in desk.say("describe dataset").splitlines()}
        for line in DATASET_LINES:
            assert any(re.fullmatch(line, each) for each in lines), line
        assert any(re.fullmatch(r"Cache Capacity: +400\.00GiB", each) for each in lines)
        desk.check_volumes(volume("imagenet"))
        desk.read("imagenet", "imagenet")

    def test_002_the_same_on_s3(self, desk: Desk, s3: S3Server) -> None:
        keys = s3.credentials
        words = {
            "oss://<OSS_BUCKET>/<OSS_DIRECTORY>/": "s3://imagenet-bucket/imagenet/",
            "fs.oss.accessKeyId: <OSS_ACCESS_KEY_ID>": f"aws.accessKeyId: {keys.access_key_id}",
            "fs.oss.accessKeySecret: <OSS_ACCESS_KEY_SECRET>": f"aws.secretKey: {keys.secret_access_key}",
            "fs.oss.endpoint: <OSS_ENDPOINT>": f"alluxio.underfs.s3.endpoint: {s3.endpoint}\n"
            '      alluxio.underfs.s3.disable.dns.buckets: "true"',
        }
        desk.write("dataset.yaml", "002-dataset.yaml", **words)
        desk.say("create -f dataset.yaml")
        desk.wait_until_ready("alluxioruntime", "imagenet")

        (datasets,) = desk.tables("get dataset")
        check(datasets, {**DATASET, "CACHE CAPACITY": r"200\.00GiB"})
        (runtimes,) = desk.tables("get alluxioruntime -o wide")
        check(runtimes, WIDE_RUNTIME)
        desk.read("imagenet", "imagenet")
        desk.say("delete -f dataset.yaml")
        desk.expect_nothing("imagenet")

    @pytest.mark.skipif(bool(LACKING), reason=LACKING)
    def test_003_a_claim_of_an_nfs_volume(self, desk: Desk, nfs: NfsServer) -> None:
        words = {"<YOUR_PATH_TO_DATASET>": str(nfs.export), "<YOUR_NFS_SERVER>": nfs.address}
        desk.write("nfs.yaml", "003-nfs.yaml", **words)
        desk.say("create -f nfs.yaml")
        desk.check_volumes(NFS_VOLUME)

        desk.write("dataset.yaml", "003-dataset.yaml")
        desk.say("create -f dataset.yaml")
        desk.wait_until_ready("alluxioruntime", "fluid-imagenet")
        desk.check_volumes(volume("fluid-imagenet"), NFS_VOLUME)
        (datasets,) = desk.tables("get dataset")
        check(datasets, {**DATASET, "NAME": "fluid-imagenet", "CACHE CAPACITY": r"600\.00GiB"})
        # The job's DATA_DIR is /data/nfs-imagenet/imagenet.
        desk.read("fluid-imagenet", "nfs-imagenet/imagenet")

        desk.say("delete -f dataset.yaml")
        said = desk.say("""patch pvc nfs-imagenet -p '{"metadata":{"finalizers": []}}' --type=merge""")
        assert said == "persistentvolumeclaim/nfs-imagenet patched\n"
        desk.say("delete -f nfs.yaml")
