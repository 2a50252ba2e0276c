# SPDX-License-Identifier: Apache-2.0
"""Lines of a value, as lines of the file, by the style in which it is written."""

import pytest

from ci_doctor.lint.pipelines.reading.compose import compose
from ci_doctor.lint.pipelines.reading.scalar_lines import scalar_lines
from ci_doctor.lint.pipelines.reading.yaml_nodes import MappingNode, ScalarNode


def lines_of(text: str) -> dict[str, int]:
    """Each line of the value of `run` with its line in the file."""
    document = compose(text).documents[0]
    assert isinstance(document, MappingNode)
    node = document.get("run")
    assert isinstance(node, ScalarNode)
    return dict(zip(node.value.split("\n"), scalar_lines(node, text), strict=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run: make all\n", {"make all": 1}),
        ("run: |\n  one\n\n  two\n", {"one": 2, "": 5, "two": 4}),
        ("run: |2-\n  one\n    two", {"one": 2, "  two": 3}),
        ("a: 1\nrun: |\r\n  one\r\n  two\r\n", {"one": 3, "two": 4, "": 5}),
        ("run: >\n  one\n  more\n\n  two\n", {"one more": 2, "two": 5, "": 5}),
        ("run: >-\n  a b a\n  b\n\n  a b\n", {"a b a b": 2, "a b": 5}),
        ("run: >-\n\n\n  one\n", {"": 2, "one": 4}),
        ("run: one\n  more\n\n  two\n", {"one more": 1, "two": 4}),
        ("run:\n  'it''s\n  one\n\n  two'\n", {"it's one": 2, "two": 5}),
        (
            'run: "say \\"a b\\" \\\n  c\n\n  two\\nthree"\n',
            {'say "a b" c': 1, "two": 4, "three": 4},
        ),
    ],
)
def test_each_line_is_where_it_stands(text: str, expected: dict[str, int]) -> None:
    found = lines_of(text)

    assert {line: found[line] for line in expected if line} == {
        line: number for line, number in expected.items() if line
    }
    assert set(found) == set(expected) | ({""} & set(found))
