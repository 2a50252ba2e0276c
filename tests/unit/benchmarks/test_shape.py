"""The figures of one source text, and of a package beside others."""

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from benchmarks.shape import Source, complexity, read_package, read_source


def source(text: str) -> Source:
    return read_source(dedent(text))


def test_filled_lines_are_neither_blank_nor_a_comment_alone() -> None:
    read = source(
        '''\
        """A docstring

        of three lines."""

        # a comment alone
        value = 1  # a comment behind code
        '''
    )

    assert read.filled_lines == 3
    assert read.code_lines == 1


def test_docstrings_of_modules_classes_and_functions_are_not_code() -> None:
    read = source(
        '''\
        """Module."""

        class Value:
            """Class."""

            def method(self) -> str:
                """Method."""
                return """not a docstring"""
        '''
    )

    assert (read.code_lines, read.filled_lines) == (3, 6)


def test_a_function_is_as_long_as_its_code() -> None:
    read = source(
        '''\
        def function():
            """Docstring."""

            # why
            return 1
        '''
    )

    assert [function.lines for function in read.functions] == [2]


def test_nodes_are_those_of_the_syntax_tree() -> None:
    assert read_source("x = 1\n").nodes == len(list(ast.walk(ast.parse("x = 1\n")))) == 5


def test_comprehensions_and_conditional_expressions_are_counted() -> None:
    read = source(
        """\
        a = [x for x in y]
        b = {x for x in y}
        c = {x: x for x in y}
        d = sum(x for x in y)
        e = 1 if a else 2
        if a:
            pass
        """
    )

    assert (read.comprehensions, read.conditionals) == (4, 1)


def test_suppressions_and_the_licence_line_are_no_comments() -> None:
    read = source(
        """\
        # SPDX-License-Identifier: Apache-2.0
        import a  # noqa: F401
        import b  # type: ignore[import]
        import c  # pragma: no cover
        import d  # a reason
        text = "# no comment"
        """
    )

    assert (read.comments, read.suppressions) == (1, 3)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("return 1", 1, id="no-branch"),
        pytest.param("if a: pass", 2, id="if"),
        pytest.param("return a and b and c", 3, id="boolean-operators"),
        pytest.param("return a if b else c", 2, id="conditional-expression"),
        pytest.param("return [x for x in y]", 2, id="comprehension"),
        pytest.param("return [x for x in y if a if b]", 4, id="conditions-in-a-comprehension"),
        pytest.param("return [x for y in z for x in y]", 3, id="loops-in-a-comprehension"),
        pytest.param("for x in y:\n  while x: pass", 3, id="loops"),
    ],
)
def test_complexity_counts_branches_and_conditions_in_comprehensions(
    body: str, expected: int
) -> None:
    indented = body.replace("\n", "\n  ")
    (function,) = ast.parse(f"def function():\n  {indented}\n").body

    assert complexity(function) == expected
    assert read_source(f"def function():\n  {indented}\n").functions[0].complexity == expected


def test_text_that_is_no_python_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        read_source("def")


def test_a_package_has_the_sums_of_its_modules_that_hold_code(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("x = [y for y in z]  # a reason\n")
    (tmp_path / "other.py").write_text("def function(): ...  # noqa: E704\n")
    (tmp_path / "empty.py").write_text("# SPDX-License-Identifier: Apache-2.0\n")

    package = read_package(tmp_path)

    assert len(package.sources) == 2
    assert package.ratio("comprehensions", "filled_lines", 100) == "50.0"
    assert package.total("suppressions") == 1
    assert [function.lines for function in package.functions] == [1]


def test_a_directory_without_code_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no Python code"):
        read_package(tmp_path)
