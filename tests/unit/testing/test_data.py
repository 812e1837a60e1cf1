"""The data of tests and demo: records that TensorFlow reads, pictures that decode, the same each time."""

import struct
import zlib

import numpy as np

from headrace.testing.fashion_mnist import encode_example, encode_png
from headrace.testing.photos import PhotoSet
from headrace.testing.tfrecords import encode_records, masked_checksums


def test_checksums_are_crc32c_masked_as_tensorflow_does():
    # The check value of CRC-32C for "123456789" is 0xE3069283.
    masked = ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_checksums([b"123456789", b"", b"123456789"])[::2] == [masked, masked]


def test_a_record_is_framed_by_length_and_checksums():
    content = encode_records([b"abc", b"defgh"])
    length, _ = struct.unpack_from("<QI", content)
    assert (length, content[12:15]) == (3, b"abc")
    assert len(content) == 2 * 16 + 8


def test_an_example_is_what_protocol_buffers_make_of_it():
    # Example{features{feature{key:"image" value{bytes_list{value:"xy"}}} feature{key:"label" value{int64_list{[7]}}}}}
    image = b"\x0a\x0f\x0a\x05image\x12\x06\x0a\x04\x0a\x02xy"
    label = b"\x0a\x0e\x0a\x05label\x12\x05\x1a\x03\x0a\x01\x07"
    features = image + label
    assert encode_example(b"xy", 7) == b"\x0a" + bytes([len(features)]) + features


def test_a_png_holds_the_pixels():
    image = np.arange(28 * 28, dtype=np.uint32).reshape(28, 28).astype(np.uint8)
    content = encode_png(image)
    start = content.index(b"IDAT") + 4
    rows = zlib.decompressobj().decompress(content[start:])
    pixels = np.frombuffer(rows, np.uint8).reshape(28, 29)[:, 1:]
    assert (pixels == image).all()


def test_photo_paths_are_in_imagenets_shape_and_order():
    wanted = PhotoSet(files=1000, classes=10)
    paths = [wanted.relative_path(index) for index in range(1000)]
    assert paths[0] == "n01440764/n01440764_00000.JPEG"
    assert paths == sorted(paths)
    assert len({path.partition("/")[0] for path in paths}) == 10


def test_another_seed_is_another_folder():
    assert PhotoSet(100).folder_name() == PhotoSet(100).folder_name() != PhotoSet(100, seed=2).folder_name()
