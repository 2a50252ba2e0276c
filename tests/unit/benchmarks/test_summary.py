"""The rows of the comparison."""

from benchmarks.density.source import read_source
from benchmarks.density.summary import (
    Package,
    as_markdown,
    as_text,
    repeated_classes,
    rows,
)

DENSE = """\
class Value: ...
class Value: ...
class Other: ...
def function(a, b):
    return [x for x in a if x if b if x > b if a or b] if a and b or not b else []  # noqa: E501
"""


def package(*texts: str, test_lines: int | None = None) -> Package:
    return Package("some", tuple(map(read_source, texts)), test_lines)


def cells(described: Package) -> dict[str, str]:
    return {row.title: row.cells[0] for row in rows([described])}


def test_each_figure_is_relative_to_its_lines() -> None:
    figures = cells(package(DENSE, "x = 1  # a reason\n", test_lines=9))

    assert figures["modules / code lines"] == "2 / 0.0k"
    assert figures["module median / p90 / max"] == "3 / 5 / 5"
    assert figures["function median / p90 / max"] == "2 / 2 / 2"
    assert figures["comprehensions per 100 lines"] == "16.7"
    assert figures["conditional expressions per 100 lines"] == "16.7"
    assert figures["comments per 100 code lines"] == "16.7"
    assert figures["complexity > 8, comprehensions counted, %"] == "100.0"
    assert figures["class names used twice or more"] == "1"
    assert figures["lint suppressions per 1000 code lines"] == "166.7"
    assert figures["test lines per code line"] == "1.50"


def test_what_is_unknown_is_a_dash() -> None:
    figures = cells(package("x = 1\n"))

    assert figures["test lines per code line"] == "–"
    assert figures["function median / p90 / max"] == "–"


def test_repeated_classes_are_named_across_modules() -> None:
    assert repeated_classes(package("class A: ...\n", "class A: ...\nclass B: ...\n")) == ["A"]


def test_tables_have_a_column_for_each_package_and_one_for_the_aim() -> None:
    table = rows([package("x = 1\n"), package("x = 1\n")])

    head, *lines = as_text(["ours", "theirs"], table)
    assert head.split() == ["ours", "theirs", "aim"]
    assert len(lines) == len(table)
    head, rule, *lines = as_markdown(["ours", "theirs"], table)
    assert (head, rule) == ("| | ours | theirs | aim |", "|---|--:|--:|--:|")
    assert {line.count("|") for line in lines} == {5}
