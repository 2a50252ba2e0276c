"""Whether an import statement may read a file of the repository."""

import ast

import pytest

from ci_doctor.lint.consistency.import_path import comes_from


def statement(text: str) -> ast.ImportFrom:
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.ImportFrom)
    return node


@pytest.mark.parametrize(
    ("text", "definer"),
    [
        ("from engine.method import X", "engine/method.py"),
        ("from engine.method import X", "src/engine/method.py"),
        ("from engine import X", "engine/deep/method.py"),
        ("from .method import X", "engine/method.py"),
        ("from . import X", "engine/method.py"),
        ("from ..other.method import X", "other/method.py"),
    ],
)
def test_it_reads_its_module_or_what_a_package_hands_on(text: str, definer: str) -> None:
    assert comes_from(statement(text), "engine/server.py", definer)


@pytest.mark.parametrize(
    ("text", "definer"),
    [
        ("from other.method import X", "engine/method.py"),
        ("from .pb.method import X", "engine/method.py"),
        ("from method import X", "engine/second_method.py"),
        ("from .... import X", "engine/method.py"),
    ],
)
def test_it_does_not_read_another_module(text: str, definer: str) -> None:
    assert not comes_from(statement(text), "engine/server.py", definer)
