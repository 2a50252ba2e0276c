# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.diagnosis.scanning.literal_search import Engine, fast_engine, quick_engine

ENGINES = [fast_engine, quick_engine]


def every_place(literals: Sequence[bytes], block: bytes) -> list[tuple[int, int]]:
    """What an engine must give, by comparing each literal at each offset."""
    return [
        (index, start)
        for index, literal in enumerate(literals)
        for start in range(len(block))
        if block.startswith(literal, start)
    ]


# Few letters, so that literals overlap and repeat.
words = st.text("ab: \r", min_size=1, max_size=9).map(str.encode)


@given(
    literals=st.lists(words, min_size=1, max_size=20, unique=True),
    block=st.lists(words | st.just(b"\n") | st.binary(max_size=3)).map(b"".join),
)
def test_every_engine_gives_every_place_of_every_literal(
    literals: list[bytes], block: bytes
) -> None:
    expected = every_place(literals, block)

    for make_engine in ENGINES:
        engine = make_engine(literals)
        assert sorted(engine(block)) == expected, make_engine.__name__


@pytest.mark.parametrize("make_engine", ENGINES)
def test_a_literal_is_found_whatever_bytes_it_has(
    make_engine: Callable[[Sequence[bytes]], Engine],
) -> None:
    literals = [b"(){}[]?*+|\\^$.", "nicht möglich".encode(), b"\x01\xff"]
    block = b"\n".join(literals)

    assert sorted(make_engine(literals)(block)) == [(0, 0), (1, 15), (2, 30)]


def test_without_literals_nothing_is_found() -> None:
    assert fast_engine([])(b"anything") == []
