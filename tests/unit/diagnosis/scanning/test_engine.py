# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.diagnosis.scanning.aho_corasick_engine import aho_corasick_engine
from ci_doctor.diagnosis.scanning.engine import Engine, fastest_engine
from ci_doctor.diagnosis.scanning.hyperscan_engine import hyperscan_engine
from ci_doctor.diagnosis.scanning.substring_engine import cover, substring_engine

ENGINES = [aho_corasick_engine, hyperscan_engine, substring_engine]


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
        assert engine is not None
        assert sorted(engine(block)) == expected, make_engine.__name__


@pytest.mark.parametrize("make_engine", [*ENGINES, fastest_engine])
def test_a_literal_is_found_whatever_bytes_it_has(
    make_engine: Callable[[Sequence[bytes]], Engine],
) -> None:
    literals = [b"(){}[]?*+|\\^$.", "nicht möglich".encode(), b"\x01\xff"]
    block = b"\n".join(literals)

    assert sorted(make_engine(literals)(block)) == [(0, 0), (1, 15), (2, 30)]


def test_a_cover_is_smaller_than_the_literals_and_none_lacks_its_substring() -> None:
    literals = [b"TypeError: ", b"ValueError: ", b"KeyError: ", b"cannot open", b"cannot read"]

    substrings = cover(literals)

    assert len(substrings) == 2
    assert all(any(each in literal for each in substrings) for literal in literals)


def test_without_literals_nothing_is_found() -> None:
    assert fastest_engine([])(b"anything") == []


@pytest.mark.integration
@pytest.mark.parametrize(
    ("missing", "chosen"),
    [
        ([], "hyperscan_engine"),
        (["hyperscan"], "aho_corasick_engine"),
        (["hyperscan", "ahocorasick_rs"], "substring_engine"),
    ],
)
def test_the_fastest_engine_that_is_installed_is_chosen(missing: list[str], chosen: str) -> None:
    script = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({missing}))\n"
        "from ci_doctor.diagnosis.scanning.engine import fastest_engine\n"
        "print(fastest_engine([b'error']).__module__)\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert ended.stdout.strip().endswith(f".{chosen}")
