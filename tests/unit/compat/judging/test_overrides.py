# SPDX-License-Identifier: Apache-2.0
"""Overrides that the callee calls with arguments they do not take, and abstract methods."""

import pytest

from tests.unit.compat.trees import judged

BASE = "class Base:\n    def step(self, request, count): ...\n    def other(self): ...\n"
OWN = "from lib.api import Base\nclass Own(Base):\n    def step(self, request):\n        pass\n"

CALLS = {
    "through self in the base": ("", "class Base:\n    def run(self):\n        self.step(1, 2)\n    def step(self, a, b): ...\n", True),
    "through an annotated parameter": ("from lib.api import Base\ndef run(b: Base):\n    b.step(1, 2)\n", BASE, True),
    "through an attribute that a factory makes": (
        ("from lib.api import Base\ndef make() -> Base: ...\nclass Engine:\n    def __init__(self):\n"
        "        self.b = make()\n    def run(self):\n        self.b.step(1, 2)\n"), BASE, True),
    "with arguments it takes": ("from lib.api import Base\ndef run(b: Base):\n    b.step(1)\n", BASE, False),
    "on another class": ("class X:\n    def step(self, a, b): ...\ndef run(b: X):\n    b.step(1, 2)\n", BASE, False),
    "on an unknown receiver": ("def run(b):\n    b.step(1, 2)\n", BASE, False),
    "nowhere": ("", BASE, False),
}  # fmt: skip


@pytest.mark.parametrize(("engine", "base", "expected"), CALLS.values(), ids=CALLS)
def test_an_override_breaks_if_the_callee_calls_it_otherwise(
    engine: str, base: str, expected: bool
) -> None:
    found = judged(OWN, {"lib/api.py": base, "lib/engine.py": engine})

    assert [(each.kind, each.at.line) for each in found.breaks] == [("override", 3)] * expected
    assert found.resolved["overrides"] == 1


ABSTRACT = "from abc import ABC, abstractmethod\nclass Base(ABC):\n    @abstractmethod\n    def new(self): ...\n"


def test_an_instance_of_a_class_with_an_abstract_method_is_an_error() -> None:
    caller = "from lib.api import Base\nclass Own(Base):\n    pass\nOwn()\n"

    (found,) = judged(caller, {"lib/api.py": ABSTRACT}).breaks

    assert (found.kind, found.at.line, found.is_error) == ("abstract", 4, True)


def test_without_an_instance_it_is_a_warning() -> None:
    caller = "from lib.api import Base\nclass Own(Base):\n    pass\n"

    (found,) = judged(caller, {"lib/api.py": ABSTRACT}).breaks

    assert (found.at.line, found.is_error) == (2, False)


@pytest.mark.parametrize(
    "caller",
    [
        "class Own(Base):\n    def new(self): ...\nOwn()\n",
        "class Mid(Base): ...\nclass Own(Mid):\n    def new(self): ...\nOwn()\n",
        "import x\nclass Own(x.Mixin, Base): ...\nOwn()\n",
    ],
    ids=["implemented", "implemented below", "perhaps by an unknown base"],
)
def test_an_implemented_method_is_none(caller: str) -> None:
    assert judged(f"from lib.api import Base\n{caller}", {"lib/api.py": ABSTRACT}).breaks == []
