"""A network that all ranks train together: gradients here, their mean over Horovod, the accuracy at the end."""

from __future__ import annotations

import horovod.tensorflow as hvd
import tensorflow as tf

from resnet50.networks import Network, build, optimizer


class Learner:
    """The same weights on every rank. All ranks must call the same methods in the same order."""

    def __init__(
        self, network: Network, *, size_px: int, batch: int, learning_rate: float, seed: int
    ) -> None:
        """`batch` is what one rank trains on in a step; `learning_rate` is of one rank, and grows with the ranks."""
        tf.keras.utils.set_random_seed(seed)
        self._model = build(network, size_px)
        scale = hvd.size() if network.name == "resnet50" else 1
        self._optimizer = optimizer(network, learning_rate * scale)
        self._loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self._optimizer.build(self._model.trainable_variables)
        self._build_graphs(batch, size_px)
        hvd.broadcast_variables(self._variables, root_rank=0)

    @tf.function
    def gradients(self, images, labels):
        """(loss, gradients) of this rank's images."""
        with tf.GradientTape() as tape:
            loss = self._loss(labels, self._model(images, training=True))
        return loss, tape.gradient(loss, self._model.trainable_variables)

    @tf.function
    def exchange_and_apply(self, gradients) -> None:
        """One step with the mean of all ranks' gradients; waits for all of them."""
        # As one group: merged by chance, they would be added in another order each time.
        mean = hvd.grouped_allreduce(gradients)
        self._optimizer.apply_gradients(zip(mean, self._model.trainable_variables, strict=True))

    def accuracy(self, batches: tf.data.Dataset) -> tuple[float, float, int]:
        """(accuracy @ 1, accuracy @ 5, images) over the batches of all ranks together."""
        for variable in self._model.non_trainable_variables:
            variable.assign(hvd.allreduce(variable))
        right_1 = right_5 = images = 0
        for pictures, labels in batches:
            logits = self._model(pictures, training=False)
            right_1 += int(tf.reduce_sum(tf.cast(tf.math.in_top_k(labels, logits, 1), tf.int32)))
            right_5 += int(tf.reduce_sum(tf.cast(tf.math.in_top_k(labels, logits, 5), tf.int32)))
            images += len(labels)
        right_1, right_5, images = (int(n) for n in total(right_1, right_5, images))
        return right_1 / max(images, 1), right_5 / max(images, 1), images

    @property
    def _variables(self) -> list[tf.Variable]:
        return [*self._model.variables, *self._optimizer.variables]

    def _build_graphs(self, batch: int, size_px: int) -> None:
        """Traces and compiles all before the clock starts: that is not the storage's time."""
        first_values = [variable.numpy() for variable in self._variables]
        blank = tf.zeros((batch, size_px, size_px, 3)), tf.ones(batch, tf.int64)
        self.exchange_and_apply(self.gradients(*blank)[1])
        for variable, value in zip(self._variables, first_values, strict=True):
            variable.assign(value)


def total(*numbers: float) -> list[float]:
    """Each number summed over all ranks."""
    return hvd.allreduce(tf.constant(numbers, tf.float64), op=hvd.Sum).numpy().tolist()


def largest(number: float) -> float:
    """The largest of all ranks' numbers."""
    return float(tf.reduce_max(hvd.allgather(tf.constant([number], tf.float64))))


def wait_for_all() -> None:
    """Until every rank is here."""
    total(0)
