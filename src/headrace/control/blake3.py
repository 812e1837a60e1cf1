"""BLAKE3 in the one use that Python has for it: keys that follow from a short text, as the peer protocol makes them.

The engine does the same in `crates/engine/src/wire/token.rs`. Here it is written out, by the paper
(https://github.com/BLAKE3-team/BLAKE3-specs): the standard library lacks it, and where tokens are derived is no engine.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_BYTES = 1024
"""One chunk: longer input is a tree of them, which a token never is."""

_BLOCK_BYTES = 64
_WORD = 0xFFFF_FFFF
_START, _END, _ROOT, _CONTEXT, _MATERIAL = 1, 2, 8, 32, 64
_INITIAL = (
    *(0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A),
    *(0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19),
)
_SHUFFLED = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def derive_key(context: str, material: bytes) -> bytes:
    """32 bytes that follow from `material`, which they do not tell, and are another key for every context."""
    return _bytes(_chunk(_chunk(_INITIAL, context.encode(), _CONTEXT), material, _MATERIAL))


def _chunk(key: Sequence[int], content: bytes, flags: int) -> list[int]:
    if len(content) > LONGEST_BYTES:
        raise ValueError(f"{len(content)} bytes are more than a chunk")
    starts = range(0, len(content) or 1, _BLOCK_BYTES)
    value = list(key)
    for start in starts:
        block = content[start : start + _BLOCK_BYTES]
        ends = (_START if start == starts[0] else 0) | (_END | _ROOT if start == starts[-1] else 0)
        value = _compress(value, block, flags | ends)
    return value


def _compress(key: Sequence[int], block: bytes, flags: int) -> list[int]:
    words = _words(block.ljust(_BLOCK_BYTES, b"\0"))
    state = [*key, *_INITIAL[:4], 0, 0, len(block), flags]
    for _ in range(7):
        for number, places in enumerate((*_COLUMNS, *_DIAGONALS)):
            _mix(state, places, words[2 * number], words[2 * number + 1])
        words = [words[place] for place in _SHUFFLED]
    return [low ^ high for low, high in zip(state[:8], state[8:], strict=True)]


def _mix(state: list[int], places: tuple[int, int, int, int], first: int, second: int) -> None:
    a, b, c, d = places
    for word, turns in ((first, (16, 12)), (second, (8, 7))):
        state[a] = (state[a] + state[b] + word) & _WORD
        state[d] = _turned(state[d] ^ state[a], turns[0])
        state[c] = (state[c] + state[d]) & _WORD
        state[b] = _turned(state[b] ^ state[c], turns[1])


def _turned(word: int, bits: int) -> int:
    return (word >> bits | word << (32 - bits)) & _WORD


def _words(block: bytes) -> list[int]:
    return [int.from_bytes(block[place : place + 4], "little") for place in range(0, len(block), 4)]


def _bytes(words: Sequence[int]) -> bytes:
    return b"".join(word.to_bytes(4, "little") for word in words)
