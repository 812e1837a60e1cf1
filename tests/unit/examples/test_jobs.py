from __future__ import annotations

import shlex

import pytest
from experiment.jobs import Job, JobError, result_of

# Seed 000, word for word.
SEED = """
arena submit mpi \
    --name horovod-resnet50-v2-4x8-fluid \
    --gpus=8 \
    --workers=4 \
    --working-dir=/horovod-demo/tensorflow-demo/ \
    --data imagenet:/data \
    -e DATA_DIR=/data/imagenet \
    -e num_batch=1000 \
    -e datasets_num_private_threads=8 \
    --image=registry.cn-hangzhou.aliyuncs.com/tensorflow-samples/horovod-benchmark-dawnbench-v2:0.18.1-tf1.14.0-torch1.2.0-mxnet1.5.0-py3.6 \
    ./launch-example.sh 4 8
"""  # noqa: E501


def test_a_job_is_submitted_with_the_command_of_the_seeds() -> None:
    variables = {"DATA_DIR": "/data/imagenet", "num_batch": "1000", "datasets_num_private_threads": "8"}
    job = Job("horovod-resnet50-v2-4x8-fluid", 4, 8, ("--data", "imagenet:/data"), variables)
    assert job.submit_words() == shlex.split(SEED)


def test_the_result_is_the_last_one_of_the_log() -> None:
    log = ["1\timages/sec: 3.0", 'result: {"time_s": 1}', 'result: {"time_s": 2}', "bye"]
    assert result_of(log) == {"time_s": 2}


def test_a_log_without_a_result_is_shown() -> None:
    with pytest.raises(JobError, match="no files"):
        result_of(["train.py: there are no files"])
