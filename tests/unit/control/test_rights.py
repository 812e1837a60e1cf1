"""Tokens that allow less than the one that they are made of."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from headrace.control.blake3 import LONGEST_BYTES, derive_key
from headrace.control.rights import Rights, derive, need, rights_of
from headrace.errors import ConfigError, RefusedError

# Of the authors of BLAKE3: test_vectors.json, mode derive_key.
CONTEXT = "BLAKE3 2019-12-27 16:29:52 test vectors context"
VECTORS = {
    0: "2cc39783c223154fea8dfb7c1b1660f2ac2dcbd1c1de8277b0b0dd39b7e50d7d",
    1: "b3e2e340a117a499c6cf2398a19ee0d29cca2bb7404c73063382693bf66cb06c",
    1023: "74a16c1c3d44368a86e1ca6df64be6a2f64cce8f09220787450722d85725dea5",
    1024: "7356cd7720d5b66b6d0697eb3177d9f8d73a4a5c5e968896eb6a689684302706",
}
WHOLE = SecretStr("0123456789abcdef")


@pytest.mark.parametrize("size", VECTORS)
def test_keys_are_those_of_blake3(size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    assert derive_key(CONTEXT, content).hex() == VECTORS[size]


def test_what_a_token_never_is_is_no_input() -> None:
    with pytest.raises(ValueError, match="more than a chunk"):
        derive_key(CONTEXT, bytes(LONGEST_BYTES + 1))


def test_derived_tokens_are_those_of_the_engine() -> None:
    """The same texts stand in the tests of `crates/engine/src/wire/token.rs`."""
    worker, reader = derive(WHOLE, Rights.WORKER), derive(WHOLE, Rights.READER)
    assert worker.get_secret_value() == (
        "headrace.worker.c6da0779d076ca12d0f182bde955de8efc835dd6354945c9576410ebcacfe77e"
    )
    assert reader.get_secret_value() == (
        "headrace.reader.f4987c93a7a29106d36aa3ad9f47b94e7db56263a89e9455935eee78caa6af71"
    )


def test_less_follows_from_more_and_never_the_other_way_round() -> None:
    tokens = {rights: derive(WHOLE, rights) for rights in Rights}
    assert tokens[Rights.ADMINISTRATOR] == WHOLE
    for given, token in tokens.items():
        assert rights_of(token) is given
        for rights, wanted in tokens.items():
            if rights <= given:
                assert derive(token, rights) == wanted
            else:
                with pytest.raises(RefusedError, match="is not enough") as raised:
                    derive(token, rights)
                assert "the file `token` of the master" in str(raised.value.hint)


def test_half_a_token_is_told_and_not_repeated() -> None:
    text = derive(WHOLE, Rights.READER).get_secret_value()
    for wrong in (text[:-2], text + "00", text[:-1] + "x"):
        with pytest.raises(ConfigError, match="malformed") as raised:
            need(SecretStr(wrong), Rights.READER)
        assert wrong[:30] not in f"{raised.value} {raised.value.hint}"
