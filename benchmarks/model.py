"""The weights of a language model, as they are published: shards of safetensors. Knows no contender."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.data import register_object
from benchmarks.settings import BYTES_OF_HALF, WIDTH_OF_FEED_FORWARD, Scale

BUCKET = "weights"


def shard_name(index: int, count: int) -> str:
    """As Hugging Face names them."""
    return f"model-{index + 1:05d}-of-{count:05d}.safetensors"


def shard_paths(tree: Path, scale: Scale) -> list[Path]:
    return [tree / shard_name(index, scale.model_shards) for index in range(scale.model_shards)]


def make_model(bucket: Path, scale: Scale) -> int:
    """Fills the bucket's folder with the shards, each a full object; their bytes together. Needs safetensors."""
    from safetensors.numpy import save_file  # noqa: PLC0415 - not everybody who benchmarks has it

    bucket.mkdir(parents=True, exist_ok=True)
    for index, path in enumerate(shard_paths(bucket, scale)):
        save_file(dict(_tensors(index, scale)), path)
        register_object(path)
    return sum(path.stat().st_size for path in shard_paths(bucket, scale))


def _tensors(shard: int, scale: Scale) -> Iterator[tuple[str, np.ndarray]]:
    source = np.random.default_rng(shard)
    first = shard * scale.model_layers_of_a_shard
    for layer in range(first, first + scale.model_layers_of_a_shard):
        for name, shape in _layer(scale.model_hidden).items():
            count = math.prod(shape)
            halves = np.frombuffer(source.bytes(count * BYTES_OF_HALF), np.float16)
            yield f"model.layers.{layer}.{name}.weight", halves.reshape(shape)


def _layer(hidden: int) -> dict[str, tuple[int, ...]]:
    """The tensors of one layer of a decoder such as Llama's."""
    wide = WIDTH_OF_FEED_FORWARD * hidden
    return {
        **{f"self_attn.{name}_proj": (hidden, hidden) for name in "qkvo"},
        **{f"mlp.{name}_proj": (wide, hidden) for name in ("gate", "up")},
        "mlp.down_proj": (hidden, wide),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
