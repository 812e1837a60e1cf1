"""Trains ResNet-50 on ImageNet-shaped TFRecords with Horovod; started by launch-example.sh under mpirun.

With a GPU, or a processor alone, every image is decoded and trained on. With `--accelerator emulated-v100` the input
pipeline is as real, but the accelerators are emulated: each step takes the time that the table says, while a small
network is trained on a sample of each batch, so that the accuracy is measured and not made up.

Knows nothing of what serves the files.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import horovod
import horovod.tensorflow as hvd
import tensorflow as tf
from resnet50 import records
from resnet50.accelerators import TABLE, StepClock, batch_s
from resnet50.learner import Learner, largest, total, wait_for_all
from resnet50.networks import NETWORKS, RESNET8, RESNET50, Network
from resnet50.options import AUTO, CPU, GPU, Options, read_options
from resnet50.speed import HEADING, Speedometer


@dataclass(frozen=True)
class Plan:
    """A training on this rank, all choices made."""

    network: Network
    size_px: int
    batch: int
    """Images that this rank reads in a step."""
    trained: int
    """Of them those that a network is trained on here."""
    step_s: float
    """What the accelerators compute in a step; 0 when they are real."""
    what: str


def main() -> None:
    options = read_options(sys.argv[1:], os.environ)
    hvd.init()
    plan = _plan(options, _use_gpu(options))
    files = records.shards(options.data, "train")
    learner = Learner(
        plan.network,
        size_px=plan.size_px,
        batch=plan.trained,
        learning_rate=options.learning_rate or plan.network.learning_rate,
        seed=options.seed,
    )
    steps = options.num_batch
    _say_heading(options, plan, len(files))
    result = _train(options, plan, files, learner, steps)
    _evaluate(options, plan, learner, result)
    say(f"result: {json.dumps(result)}")


def _use_gpu(options: Options) -> bool:
    """True when this rank has a GPU of its own, which it then sees alone."""
    gpus = tf.config.list_physical_devices("GPU")
    if options.accelerator == GPU and hvd.local_rank() >= len(gpus):
        raise SystemExit(f"train.py: rank {hvd.rank()} of this machine has no GPU; there are {len(gpus)}")
    usable = options.accelerator in (AUTO, GPU) and hvd.local_rank() < len(gpus)
    tf.config.set_visible_devices(gpus[hvd.local_rank()] if usable else [], "GPU")
    if usable:
        tf.config.experimental.set_memory_growth(gpus[hvd.local_rank()], True)
    if options.is_emulated:
        # The small network is no work for more; and one thread always adds in the same order.
        tf.config.threading.set_intra_op_parallelism_threads(1)
    return usable


def _plan(options: Options, has_gpu: bool) -> Plan:
    network = _network(options, has_gpu)
    size_px = options.image_size or network.image_size
    if not options.is_emulated:
        batch = options.batch_size or network.batch_size
        return Plan(network, size_px, batch, batch, 0.0, f"{network.name} on the {GPU if has_gpu else CPU}")
    if options.accelerator not in TABLE:
        raise SystemExit(
            f"train.py: there is no accelerator {options.accelerator}; there are {', '.join(TABLE)}"
        )
    emulated, each = TABLE[options.accelerator], options.batch_size or 256
    step_s = batch_s(emulated, images=each, slowdown=options.slowdown)
    slower = f"{options.slowdown:g} times slower: {step_s:.3f} s a step of {each} images"
    what = f"resnet50 on EMULATED {emulated.title}, {slower}"
    trained = max(min(options.sample_images, each), 1) * options.accelerators_per_rank
    return Plan(network, size_px, each * options.accelerators_per_rank, trained, step_s, what)


def _network(options: Options, has_gpu: bool) -> Network:
    if options.network == AUTO:
        return RESNET50 if has_gpu else RESNET8
    if options.network not in NETWORKS:
        raise SystemExit(f"train.py: there is no network {options.network}; there are {', '.join(NETWORKS)}")
    return NETWORKS[options.network]


def _train(options: Options, plan: Plan, files: list[str], learner: Learner, steps: int) -> dict[str, object]:
    """Runs all steps; what rank 0 reports of them."""
    meter = Speedometer(plan.batch * hvd.size())
    read_bytes = 0
    # Described here, and opened when the clock runs: only then is anything read.
    pipeline = _batches(options, plan, files)
    wait_for_all()
    started_at, clock = time.time(), StepClock(plan.step_s)
    started = clock.end_s
    batches = iter(pipeline)
    batch = next(batches)
    for step in range(1, steps + 1):
        clock.take()
        images, labels, size_bytes = batch
        read_bytes += int(size_bytes)
        loss, gradients = learner.gradients(images, labels)
        clock.wait_for_exchange()
        learner.exchange_and_apply(gradients)
        clock.exchanged()
        meter.add(clock.end_s - started)
        if step == 1 or step % options.display_every == 0 or step == steps:
            say(meter.line(float(loss)))
        if step < steps:
            batch = next(batches)
    time_s = meter.ends_s[-1]
    waited_s, late_s, read_bytes = total(clock.waited_s / hvd.size(), clock.late_s / hvd.size(), read_bytes)
    say(f"{'-' * 64}\ntotal images/sec: {meter.total_images_per_s:.2f}\n{'-' * 64}")
    return {
        "what": plan.what,
        "time_s": largest(time_s),
        "started_at": started_at,
        "steps": steps,
        "images_per_step": meter.images_per_step,
        "images": meter.images_per_step * steps,
        "bytes": int(read_bytes),
        "waited_s": waited_s,
        "exchange_late_s": late_s,
        "compute_s": plan.step_s * steps,
        "ends_s": [round(end_s, 4) for end_s in meter.ends_s],
        "ranks": hvd.size(),
        "trained_images": plan.trained * hvd.size() * steps,
    }


def _batches(options: Options, plan: Plan, files: list[str]) -> tf.data.Dataset:
    encoded = records.training_records(
        files,
        rank=hvd.rank(),
        seed=options.seed,
        parallel_files=min(options.parallel_files, len(files)),
        threads=options.datasets_num_private_threads,
        shuffle_images=options.shuffle_images,
    )
    form = {"batch": plan.batch, "size_px": plan.size_px, "ahead": options.prefetch_batches}
    if options.is_emulated:
        return records.sampled_batches(encoded, sample=plan.trained, **form)
    return records.decoded_batches(encoded, **form)


def _evaluate(options: Options, plan: Plan, learner: Learner, result: dict[str, object]) -> None:
    batches = records.validation_batches(
        records.shards(options.data, "validation"),
        rank=hvd.rank(),
        ranks=hvd.size(),
        images=options.eval_images,
        size_px=plan.size_px,
    )
    right_1, right_5, images = learner.accuracy(batches)
    say(f"Accuracy @ 1 = {right_1:.4f} Accuracy @ 5 = {right_5:.4f} [{images} examples]")
    result |= {"accuracy_1": right_1, "accuracy_5": right_5, "eval_images": images}


def _say_heading(options: Options, plan: Plan, files: int) -> None:
    accelerators = hvd.size() * options.accelerators_per_rank
    say(f"TensorFlow:  {tf.__version__}, Horovod {horovod.__version__}")
    say(f"Model:       {plan.what}")
    if options.is_emulated:
        say(
            f"             and {plan.network.name} really trained on {plan.trained} images of each rank's step"
        )
    say(f"Dataset:     {options.data}, {files} training files")
    say(
        f"Batch size:  {plan.batch * hvd.size()} global, {plan.batch / options.accelerators_per_rank:g} an accelerator"
    )
    say(f"Num batches: {options.num_batch}")
    say(f"Devices:     {accelerators} accelerators, driven by {hvd.size()} ranks")
    say(HEADING)


def say(text: str) -> None:
    """To the log of the job: of rank 0 alone."""
    if hvd.rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
