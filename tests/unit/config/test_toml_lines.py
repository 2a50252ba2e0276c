# SPDX-License-Identifier: Apache-2.0
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.config.loading import Keys, line_of

TEXT = '''\
# a = 1
top = 1
[a]  # [b]
x = """
y = 1
[c]
"""
z.w = { "q r" = 1, s.t = 2 }

["b.c".d]
list = [
  1,  # ]
  { deep = 1 },
]
[[e.f]]
k = 1
[[e.f]]
k = 2
[e.f.g]
k = 3
'''


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("top",), 2),
        (("a",), 3),
        (("a", "x"), 4),
        (("a", "y"), 3),
        (("a", "z", "w", "q r"), 8),
        (("a", "z", "w", "s", "t"), 8),
        (("b.c", "d"), 10),
        (("b.c", "d", "list", 1, "deep"), 11),
        (("e", "f", 0, "k"), 16),
        (("e", "f", 1, "k"), 18),
        (("e", "f", 1, "g", "k"), 20),
        (("e", "f", 1, "missing"), 17),
        (("c",), None),
        ((), None),
    ],
)
def test_the_line_of_a_key(keys: Keys, line: int | None) -> None:
    assert line_of(TEXT, keys) == line


SCALARS = st.one_of(
    st.integers(-9, 9).map(str),
    st.booleans().map(lambda value: str(value).lower()),
    st.just('"""\nx = 1\n"""'),
)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), SCALARS, st.sampled_from(["", "\n", "# k = 1\n"])),
        unique_by=lambda row: row[0],
    )
)
def test_every_key_stands_where_it_was_written(rows: list[tuple[str, str, str]]) -> None:
    text, expected = "[t]\n", {}
    for key, value, before in rows:
        text += before
        expected[key] = text.count("\n") + 1
        text += f"{key} = {value}\n"
    document: dict[str, Any] = tomllib.loads(text)
    assert {key: line_of(text, ("t", key)) for key in document["t"]} == expected


def test_a_long_array_takes_no_quadratic_time() -> None:
    text = "a = [\n" + "".join(f'  "word {number}",\n' for number in range(20_000)) + "]\nb = 1\n"
    assert line_of(text, ("b",)) == 20_003
