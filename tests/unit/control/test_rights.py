"""Tokens that allow less than the one that they are made of."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from headrace.control.rights import Rights, derive, need, rights_of
from headrace.errors import ConfigError, RefusedError

WHOLE = SecretStr("0123456789abcdef")


def test_derived_tokens_are_those_of_the_engine() -> None:
    """The same texts stand in the tests of `crates/engine/src/wire/token.rs`."""
    worker, reader = derive(WHOLE, Rights.WORKER), derive(WHOLE, Rights.READER)
    assert worker.get_secret_value() == (
        "headrace.worker.7fbd4ef7d76f638c69eda94614da59c8d6e5a91345e9fdf49567d70c80483171"
    )
    assert reader.get_secret_value() == (
        "headrace.reader.6ccd4c840b2ffbc63bcf81717f149f81474906dc7f246e89490373f52154ee5d"
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
