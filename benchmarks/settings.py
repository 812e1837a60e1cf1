"""How much data and how many repetitions: the two sizes of a run, in one place."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1 << 20
SMALL_FILE_BYTES = 110_000
BYTES_OF_HALF = 2
WIDTH_OF_FEED_FORWARD = 3
"""Of the feed-forward matrices of a model, in widths of its hidden layer."""


@dataclass(frozen=True)
class Scale:
    """One size of the whole run. Times are limits of single measurements, in seconds."""

    name: str
    repetitions: int
    large_files: int
    large_file_bytes: int
    small_files: int
    """How many files of 110 KB the bucket holds; stat and memory see all of them."""
    loop_files: int
    """How many of them the open+read+close loops read, the same for every contender."""
    epoch_files: int
    epochs: int
    directories: tuple[int, ...]
    """Entries of the wide directories."""
    many_files: int
    """Names of a snapshot of which nothing is read."""
    many_cached: int
    """How many of them, small ones, a cache holds."""
    link_bits_per_s: int
    link_read_bytes: int
    first_byte_files: int
    loop_s: float
    """How long one measured loop runs."""
    cold_limit_s: float
    """A cold pass ends after this time and counts what it did."""
    listing_limit_s: float
    """A listing that takes longer is given up and named as such."""
    warm_limit_s: float
    cluster_link_bits_per_s: int
    """So slow that the storage's link is the bound of a cold epoch, and not the processors that all nodes share."""
    cluster_files: int
    """Files that each node of the cluster reads: enough that each worker has about its share of them."""
    cluster_file_bytes: int
    model_shards: int
    """Files of safetensors that the weights of a model lie in."""
    model_layers_of_a_shard: int
    model_hidden: int
    """The width of its hidden layer."""
    model_link_bits_per_s: int
    """Between the storage and the one node that loads the model."""
    declared_datasets: int
    served_datasets: tuple[int, ...]
    idle_s: float
    """How long processes that do nothing are watched."""
    minutes: float
    """What the suites aim to take together: when time runs out there are fewer repetitions, never fewer rows."""

    def data_bytes(self) -> int:
        """The bytes of the bucket."""
        small = (self.small_files + self.epoch_files) * SMALL_FILE_BYTES
        return self.large_files * self.large_file_bytes + small

    def cluster_bytes(self) -> int:
        """The bytes that the cluster's storage holds."""
        return self.cluster_files * self.cluster_file_bytes

    def model_bytes(self) -> int:
        """The bytes of the model's matrices: four of the attention, three of the feed-forward; vectors are nothing."""
        layer = (4 + 3 * WIDTH_OF_FEED_FORWARD) * self.model_hidden**2 * BYTES_OF_HALF
        return self.model_shards * self.model_layers_of_a_shard * layer


DEFAULT = Scale(
    name="default",
    repetitions=3,
    large_files=4,
    large_file_bytes=256 * MEBIBYTE,
    small_files=20_000,
    loop_files=3_000,
    epoch_files=4_000,
    epochs=3,
    directories=(100_000, 1_000_000),
    many_files=10_000_000,
    many_cached=1_000_000,
    link_bits_per_s=1_000_000_000,
    link_read_bytes=256 * MEBIBYTE,
    first_byte_files=50,
    loop_s=1.0,
    cold_limit_s=5.0,
    listing_limit_s=12.0,
    warm_limit_s=30.0,
    cluster_link_bits_per_s=250_000_000,
    cluster_files=96,
    cluster_file_bytes=4 * MEBIBYTE,
    model_shards=4,
    model_layers_of_a_shard=5,
    model_hidden=2048,
    model_link_bits_per_s=2_000_000_000,
    declared_datasets=1000,
    served_datasets=(10, 30),
    idle_s=30.0,
    minutes=26.0,
)

QUICK = Scale(
    name="quick",
    repetitions=2,
    large_files=2,
    large_file_bytes=64 * MEBIBYTE,
    small_files=2_000,
    loop_files=500,
    epoch_files=2_000,
    epochs=3,
    directories=(10_000, 100_000),
    many_files=1_000_000,
    many_cached=20_000,
    link_bits_per_s=500_000_000,
    link_read_bytes=64 * MEBIBYTE,
    first_byte_files=10,
    loop_s=0.4,
    cold_limit_s=2.0,
    listing_limit_s=5.0,
    warm_limit_s=8.0,
    cluster_link_bits_per_s=250_000_000,
    cluster_files=32,
    cluster_file_bytes=4 * MEBIBYTE,
    model_shards=2,
    model_layers_of_a_shard=5,
    model_hidden=512,
    model_link_bits_per_s=500_000_000,
    declared_datasets=200,
    served_datasets=(3,),
    idle_s=5.0,
    minutes=5.5,
)
