"""What a training is asked to do: flags, and for each the variable of the same name, as `arena submit -e` sets them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

AUTO = "auto"
CPU = "cpu"
GPU = "gpu"
REAL = (AUTO, CPU, GPU)


@dataclass(frozen=True)
class Options:
    """A training as it was asked for. Images are counted as one accelerator, or one rank where so said, sees them."""

    data: Path
    accelerator: str = AUTO
    """auto (a GPU where there is one), cpu, gpu, or the name of an emulated one."""
    accelerators_per_rank: int = 1
    num_batch: int = 100
    """Steps."""
    batch_size: int = 0
    """Images of one accelerator in one step; 0: what suits the accelerator."""
    datasets_num_private_threads: int = 0
    """Threads of each rank's input pipeline; 0: as many as TensorFlow likes."""
    parallel_files: int = 10
    """Files that each rank reads at the same time."""
    prefetch_batches: int = 8
    """That are read ahead of the step; tf_cnn_benchmarks reads ten thousand images ahead, to shuffle them."""
    shuffle_images: int = 0
    """Records among which the next one is drawn; 0: the order in which the files give them."""
    slowdown: float = 1.0
    """How many times slower an emulated accelerator is than the real one."""
    sample_images: int = 1
    """Beside an emulated accelerator: images of each batch that are really decoded and trained on."""
    network: str = AUTO
    """auto, resnet50 or resnet8."""
    image_size: int = 0
    """Side in pixels; 0: what suits the network."""
    learning_rate: float = 0.0
    """Of one rank; 0: what suits the network."""
    eval_images: int = 512
    """Of the validation files, for the accuracy at the end; 0: all."""
    display_every: int = 10
    seed: int = 1

    @property
    def is_emulated(self) -> bool:
        """No network of the accelerator's is trained: it takes its time."""
        return self.accelerator not in REAL


def read_options(words: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Flags before variables before defaults. Ends the program, with a sentence, on a word that is none."""
    parser = argparse.ArgumentParser(prog="train.py", description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=environment.get("DATA_DIR"), help="folder of the TFRecords; DATA_DIR"
    )
    for name, default in Options.__dataclass_fields__.items():
        if name != "data":
            kind = type(default.default)
            # A string is converted by argparse like a flag's, so that a bad variable is told like a bad flag.
            given = environment.get(name) or default.default
            parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=given)
    found = parser.parse_args(list(words))
    if not found.data:
        parser.error("which data? set DATA_DIR or give --data")
    # Each node may have the files elsewhere: what the variables mean there is known to the rank alone.
    found.data = Path(Template(str(found.data)).safe_substitute(environment))
    options = Options(**vars(found))
    fault = _fault(options)
    if fault:
        parser.error(fault)
    return options


def _fault(options: Options) -> str:
    for name, value in vars(options).items():
        if isinstance(value, (int, float)) and value < 0:
            return f"{name} cannot be less than 0: {value}"
    if options.slowdown <= 0:
        return "slowdown must be more than 0"
    if options.accelerators_per_rank > 1 and not options.is_emulated:
        return "one rank drives one accelerator, unless it is emulated: start a rank for each"
    return ""
