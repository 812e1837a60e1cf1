"""The rows of loading a model's weights, as data."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import rows
from benchmarks.report.statistics import Better
from benchmarks.samples import Row


@dataclass(frozen=True)
class Load:
    """One way to load: the loader's name in `workloads.loader`, how many ranks of one node, and what people call it."""

    loader: str
    ranks: int
    title: str

    @property
    def key(self) -> str:
        return f"{self.loader}-{self.ranks}"

    def cold(self) -> Row:
        title = f"model weights over a limited link, {self.title}"
        return Row(f"weights-cold-{self.key}", title, "s", Better.LOWER, rows.EMPTY)

    def share(self) -> Row:
        """Of what neither the link nor the local disk allows to be faster."""
        title = f"the same / the longer of the bytes on the link and the local read, {self.title}"
        return Row(f"weights-share-{self.key}", title, "×", Better.LOWER, rows.EMPTY, compare=False)

    def warm(self) -> Row:
        return Row(f"weights-warm-{self.key}", f"model weights, {self.title}", "s", Better.LOWER, rows.COLD)


SAFE_OPEN = Load("safe-open", 1, "safetensors' safe_open")
PYTHON = Load("load", 1, "safetensors' load")
TORCH = Load("torch-mmap", 1, "PyTorch's mmap")
TENSOR_PARALLEL = Load("safe-open", 2, "safe_open by 2 tensor-parallel ranks, as vLLM")
LOADS = (SAFE_OPEN, PYTHON, TORCH, TENSOR_PARALLEL)

BYTES = Row(
    "weights-bytes",
    "model weights: bytes from the bucket / bytes of the model",
    "×",
    Better.LOWER,
    rows.EMPTY,
    compare=False,
)
NODES_TIME = Row(
    "weights-nodes-cold",
    "model weights on 2 nodes × 2 ranks / the longer of the bytes on the link and one local read",
    "×",
    Better.LOWER,
    rows.LIMITED,
)
NODES_BYTES = Row(
    "weights-nodes-bytes",
    "model weights on 2 nodes × 2 ranks: bytes from the storage / bytes of the model",
    "×",
    Better.LOWER,
    rows.LIMITED,
)
NODES_AGAIN = Row(
    "weights-nodes-warm",
    "model weights on 2 nodes × 2 ranks / the same four ranks from the local disk",
    "×",
    Better.LOWER,
    rows.WARMED,
    compare=False,
)
NEXT_TIME = Row(
    "weights-next",
    "model weights on the next node, 2 ranks / the longer of its bytes on the node's link and the local read",
    "×",
    Better.LOWER,
    "in the workers' caches, the node has read nothing",
    compare=False,
)
NEXT_BYTES = Row(
    "weights-next-bytes",
    "model weights on the next node: bytes from the storage",
    "MiB",
    Better.LOWER,
    "in the workers' caches, the node has read nothing",
    compare=False,
)
NODE_ROWS = (NODES_TIME, NODES_BYTES, NODES_AGAIN, NEXT_TIME, NEXT_BYTES)
