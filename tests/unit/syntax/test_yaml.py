# SPDX-License-Identifier: Apache-2.0
"""YAML as nodes with places, whatever the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.syntax.yaml import (
    MappingNode,
    ScalarNode,
    SequenceNode,
    compose,
    scalar_lines,
    text_of,
    walk,
    with_plain_breaks,
)


def root(text: str) -> MappingNode:
    document = compose(text).documents[0]
    assert isinstance(document, MappingNode)
    return document


def scalar(text: str, key: str) -> ScalarNode:
    node = root(text).get(key)
    assert isinstance(node, ScalarNode)
    return node


def test_a_scalar_knows_its_lines_and_its_place_in_the_text() -> None:
    text = "é: ü\nkey: 'a value'\n"

    node = scalar(text, "key")

    assert (node.line, text[node.start : node.end]) == (2, "'a value'")


def test_lines_and_offsets_are_right_in_a_file_of_windows() -> None:
    text = "a:\r\n  - |\r\n    one\r\n    two\r\nb: x\r\n"

    node = scalar(text, "b")
    block = root(text).get("a")

    assert (node.line, text[node.start : node.end]) == (5, "x")
    assert isinstance(block, SequenceNode)
    assert (text_of(block.items[0]), block.items[0].end_line) == ("one\ntwo\n", 4)


def test_values_are_not_converted() -> None:
    text = "on: 3.10\nyes: 0o17\nempty:\ntagged: !env FOO\n"

    values = [text_of(field.value) for field in root(text).fields.values()]

    assert values == ["3.10", "0o17", "", "FOO"]
    assert scalar(text, "tagged").tag == "!env"


def test_tags_of_other_systems_are_read() -> None:
    node = root("script: !reference [.setup, script]\nx: !!python/object:os.system {a: 1}\n")

    assert isinstance(node.get("script"), SequenceNode)
    assert isinstance(node.get("x"), MappingNode)


def test_merged_keys_yield_to_own_ones_and_are_known_as_merged() -> None:
    text = "one: &one {a: 1, b: 1}\ntwo: &two {b: 2, c: 2}\nall:\n  c: own\n  <<: [*one, *two]\n"

    merged = root(text).get("all")

    assert isinstance(merged, MappingNode)
    values = {name: (text_of(each.value), each.merged) for name, each in merged.fields.items()}
    assert values == {"c": ("own", False), "a": ("1", True), "b": ("1", True)}


def test_a_key_that_is_no_text_is_passed_over() -> None:
    node = root("? [1, 2]\n: value\nb: 2\n")

    assert list(node.fields) == ["b"]


def test_an_anchor_may_be_defined_again() -> None:
    assert text_of(root("a: &x 1\nb: &x 2\nc: *x\n").get("c")) == "2"


def test_documents_before_an_error_are_kept() -> None:
    composition = compose("a: 1\n---\nb: 2\n---\nc: [\n")

    assert len(composition.documents) == 2
    assert composition.problem is not None
    assert composition.problem.line == 6


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("steps:\n\t- a\n", 2, "a tab where YAML allows only spaces"),
        ("a: *b\n", 1, "an alias *b that nothing defines"),
        ("a: &a [*a]\n", 1, "an alias *a inside itself"),
        ("a: b\nc: \x00\n", 2, "a character that YAML does not allow"),
        ("a: \ud800\n", 1, "no YAML: UnicodeEncodeError"),
    ],
)
def test_what_cannot_be_read_has_a_line_and_a_reason(text: str, line: int, reason: str) -> None:
    problem = compose(text).problem

    assert problem is not None
    assert (problem.line, problem.reason, problem.ours) == (line, reason, False)


@pytest.mark.parametrize("text", [100_000 * "[", 100_000 * "- ", 100_000 * "{a: "])
def test_depth_is_bounded(text: str) -> None:
    problem = compose(text).problem

    assert problem is not None
    assert problem.ours
    assert "nested deeper" in problem.reason


def test_aliases_of_aliases_make_no_more_nodes_than_the_text_has() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]

    document = compose("\n".join(lines)).documents[0]

    assert len(list(walk(document))) == 62


def test_merges_are_bounded() -> None:
    keys = ", ".join(f"k{n}: 1" for n in range(1000))
    uses = "\n".join(f"x{n}: {{<<: *m}}" for n in range(600))

    problem = compose(f"m: &m {{{keys}}}\n{uses}\n").problem

    assert problem is not None
    assert problem.ours
    assert "merges" in problem.reason


def test_only_a_line_feed_ends_a_line() -> None:
    text = with_plain_breaks("a: x\u2028y\rz\nb: 1\n")

    assert scalar(text, "b").line == 2


@given(st.text(alphabet=" \t\n\r-:{}[]&*!|>'\"%#?,<ab\u2028\x00\ud800", max_size=40))
def test_no_text_raises(text: str) -> None:
    composition = compose(with_plain_breaks(text))

    assert all(node.line >= 1 for each in composition.documents for node in walk(each))


# Lines of a value, as lines of the file, by the style in which it is written.


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
    node = scalar(text, "run")
    found = dict(zip(node.value.split("\n"), scalar_lines(node, text), strict=True))

    assert {line: found[line] for line in expected if line} == {
        line: number for line, number in expected.items() if line
    }
    assert set(found) == set(expected) | ({""} & set(found))
