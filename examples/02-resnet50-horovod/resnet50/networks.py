"""The networks: ResNet-50, and a small one of the same kind for thumbnails, which a processor can train."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

CLASSES = 1001
"""ImageNet's thousand, counted from 1, and 0 for what is none of them, as in tf_cnn_benchmarks."""


@dataclass(frozen=True)
class Network:
    """What suits a network when nothing else is asked for."""

    name: str
    image_size: int
    batch_size: int
    learning_rate: float


RESNET50 = Network("resnet50", 224, 64, 0.1)
RESNET8 = Network("resnet8", 32, 32, 0.004)
NETWORKS = {network.name: network for network in (RESNET50, RESNET8)}


def build(network: Network, size_px: int) -> tf.keras.Model:
    """The network with fresh weights, for images of this side."""
    if network is RESNET50:
        return tf.keras.applications.ResNet50(
            weights=None, classes=CLASSES, input_shape=(size_px, size_px, 3), classifier_activation=None
        )
    return _resnet8(size_px)


def optimizer(network: Network, learning_rate: float) -> tf.keras.optimizers.Optimizer:
    """What the network learns with."""
    if network is RESNET50:
        return tf.keras.optimizers.SGD(learning_rate, momentum=0.9)
    return tf.keras.optimizers.Adam(learning_rate)


def _resnet8(size_px: int) -> tf.keras.Model:
    images = tf.keras.Input((size_px, size_px, 3))
    state = tf.keras.layers.ReLU()(_convolution(images, 16, stride=2))
    for filters, stride in ((16, 1), (32, 2), (64, 2)):
        state = _residual_block(state, filters, stride)
    pooled = tf.keras.layers.GlobalAveragePooling2D()(state)
    return tf.keras.Model(images, tf.keras.layers.Dense(CLASSES)(pooled))


def _residual_block(state, filters: int, stride: int):
    branch = tf.keras.layers.ReLU()(_convolution(state, filters, stride=stride))
    branch = _convolution(branch, filters, stride=1)
    if stride != 1:
        state = tf.keras.layers.Conv2D(filters, 1, strides=stride, use_bias=False)(state)
    return tf.keras.layers.ReLU()(tf.keras.layers.Add()([branch, state]))


def _convolution(state, filters: int, *, stride: int):
    state = tf.keras.layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(state)
    return tf.keras.layers.BatchNormalization(momentum=0.9)(state)
