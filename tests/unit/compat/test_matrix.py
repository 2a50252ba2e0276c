# SPDX-License-Identifier: Apache-2.0
"""The version of a matrix that brought a break, and the definition before it."""

from typing import TYPE_CHECKING

from ci_doctor.compat.matrix import Operand, with_versions
from ci_doctor.model.facts.compat import BreakFact, DefinitionFact, DirectionFact, PairFact
from tests.unit.compat.trees import tree

if TYPE_CHECKING:
    from ci_doctor.compat.world import CodeTree


NEW = "class A:\n    def run(self, url, role): ...\n"
VERSIONS = {
    "lib 1": "class A:\n    def run(self): ...\n",
    "lib 2": "class A:\n    def run(self, url): ...\n",
    "lib 3": NEW,
    "lib 4": f"X = 1\n{NEW}",
}
BROKEN = BreakFact(
    rule="compat/call",
    file="app/use.py",
    line=2,
    excerpt="A().run('u')",
    symbol="lib.api.A.run",
    sentence="A.run() needs `role`, which the call does not give",
    caught="not",
    now=DefinitionFact(file="lib/api.py", line=3, text="A.run(url, role)"),
)


def dated(broken: dict[str, bool], unjudged: str = "") -> list[BreakFact]:
    """The breaks of `app` with all versions, if these break."""
    app = tree("app", {"app/use.py": ""})
    trees: list[CodeTree] = [tree(label, {"lib/api.py": VERSIONS[label]}) for label in broken]
    pairs = [
        PairFact(
            first="app",
            second=label,
            directions=(
                DirectionFact(
                    caller="app",
                    callee=label,
                    resolved={} if label == unjudged else {"calls": 1},
                    open_imports=0,
                    unread=0,
                    breaks=(BROKEN,) * breaks,
                ),
            ),
        )
        for label, breaks in broken.items()
    ]
    operands = [Operand(text="app", trees=(app,)), Operand(text="lib", trees=tuple(trees))]
    found = with_versions(pairs, operands)
    return [each for pair in found for way in pair.directions for each in way.breaks]


def test_a_break_names_the_first_version_that_has_it_and_the_definition_before() -> None:
    found = dated({"lib 1": True, "lib 2": False, "lib 3": True, "lib 4": True})

    assert [each.changed_by for each in found] == [
        None,
        *["lib 3; lib 2 does not break here"] * 2,
    ]
    assert [each.before and each.before.text for each in found] == [
        None,
        *["A.run(self, url)"] * 2,
    ]


def test_a_break_that_all_versions_have_names_none() -> None:
    assert [each.changed_by for each in dated({"lib 3": True, "lib 4": True})] == [None, None]


def test_an_older_version_that_was_not_judged_proves_nothing() -> None:
    assert dated({"lib 2": False, "lib 3": True}, unjudged="lib 2") == [BROKEN]
