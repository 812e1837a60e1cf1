"""Every command line of Arena in the documents that Headrace exists for, word for word.

What follows a document's number tells its lines apart.
"""

from __future__ import annotations

import subprocess

_IMAGE = (
    "registry.cn-hangzhou.aliyuncs.com/tensorflow-samples/"
    "horovod-benchmark-dawnbench-v2:0.18.1-tf1.14.0-torch1.2.0-mxnet1.5.0-py3.6"
)

SUBMITS = {
    "000": rf"""
arena submit mpi \
--name horovod-resnet50 \
--gpus=8 \
--workers=4 \
--working-dir=/horovod-demo/tensorflow-demo/ \
--data imagenet:/data \
-e DATA_DIR=/data/imagenet \
-e num_batch=1000 \
-e datasets_num_private_threads=8 \
--image={_IMAGE} \
./launch-example.sh 4 8
""",
    "001": rf"""
    arena submit mpi \
        --name horovod-resnet50-v2-4x8-fluid \
        --gpus=8 \
        --workers=4 \
        --working-dir=/horovod-demo/tensorflow-demo/ \
        --data imagenet:/data \
        -e DATA_DIR=/data/imagenet \
        -e num_batch=1000 \
        -e datasets_num_private_threads=8 \
        --image={_IMAGE} \
        ./launch-example.sh 4 8
""",
    "002": rf"""
arena submit mpi \
    --name horovod-resnet50-v2-4x8-fluid \
    --gpus=8 \
    --workers=4 \
    --working-dir=/horovod-demo/tensorflow-demo/ \
    --data imagenet:/data \
    -e DATA_DIR=/data/imagenet \
    -e num_batch=1000 \
    -e datasets_num_private_threads=8 \
    --image={_IMAGE} \
    ./launch-example.sh 4 8
""",
    "003-1x8-nfs": rf"""
arena submit mpi \
--name horovod-resnet50-v2-1x8-nfs \
--gpus=8 \
--workers=1 \
--working-dir=/horovod-demo/tensorflow-demo/ \
--data nfs-imagenet:/data \
-e DATA_DIR=/data/imagenet \
-e num_batch=1000 \
-e datasets_num_private_threads=8 \
--image={_IMAGE} \
./launch-example.sh 1 8
""",
    "003-4x8-nfs": rf"""
arena submit mpi \
--name horovod-resnet50-v2-4x8-nfs \
--gpus=8 \
--workers=4 \
--working-dir=/horovod-demo/tensorflow-demo/ \
--data nfs-imagenet:/data \
-e DATA_DIR=/data/imagenet \
-e num_batch=1000 \
-e datasets_num_private_threads=8 \
--image={_IMAGE} \
./launch-example.sh 4 8
""",
    "003-1x8-fluid": rf"""
arena submit mpi \
--name horovod-resnet50-v2-1x8-fluid \
--gpus=8 \
--workers=1 \
--working-dir=/horovod-demo/tensorflow-demo/ \
--data fluid-imagenet:/data \
-e DATA_DIR=/data/nfs-imagenet/imagenet \
-e num_batch=1000 \
-e datasets_num_private_threads=8 \
--image={_IMAGE} \
./launch-example.sh 1 8
""",
    "003-4x8-fluid": rf"""
arena submit mpi \
--name horovod-resnet50-v2-4x8-fluid \
--gpus=8 \
--workers=4 \
--working-dir=/horovod-demo/tensorflow-demo/ \
--data fluid-imagenet:/data \
-e DATA_DIR=/data/nfs-imagenet/imagenet \
-e num_batch=1000 \
-e datasets_num_private_threads=8 \
--image={_IMAGE} \
./launch-example.sh 4 8
""",
    "004": r"""
arena submit mpi \
--name job-jindofs\
 --gpus=8 \
 --workers=4 \
 --working-dir=/perseus-demo/tensorflow-demo/ \
 --data-dir /mnt/jfs/test:/data/imagenet \
 -e DATA_DIR=/data/imagenet -e num_batch=1000 \
 -e datasets_num_private_threads=8  \
 --image=registry.cn-hangzhou.aliyuncs.com/tensorflow-samples/perseus-benchmark-dawnbench-v2:centos7-cuda10.0-1.2.2-1.14-py36 \
 ./launch-example.sh 4 8
""",  # noqa: E501
}
GETS = {
    "000": "arena get horovod-resnet50            ",
    "001": "arena get horovod-resnet50-v2-4x8-fluid -e",
    "002": "arena get horovod-resnet50-v2-4x8-fluid -e",
}
LOGS = {
    "000": "arena logs --tail 100 -f horovod-resnet50",
    "001": "arena logs --tail 100 -f horovod-resnet50-v2-4x8-fluid",
    "002": "arena logs --tail 100 -f horovod-resnet50-v2-4x8-fluid",
}
DELETES = {"001": "arena delete horovod-resnet50-v2-4x8-fluid"}
"""By the document, without the prompt that 002 prints before each of its lines."""


def words_of(line: str) -> list[str]:
    """What a shell hands to `arena`; a real one reads the line."""
    script = "arena() { printf '%s\\0' \"$@\"; }\n" + line
    answer = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True)
    return answer.stdout.decode().split("\0")[:-1]
