# SPDX-License-Identifier: Apache-2.0
"""The version of a matrix that brought a break."""

from ci_doctor.compat.matrix import with_versions
from ci_doctor.model.facts.compat import BreakFact, DefinitionFact, DirectionFact, PairFact

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
    found = with_versions(pairs)
    return [each for pair in found for way in pair.directions for each in way.breaks]


def test_a_break_names_the_first_version_that_has_it() -> None:
    found = dated({"lib 1": True, "lib 2": False, "lib 3": True, "lib 4": True})

    assert [each.changed_by for each in found] == [
        None,
        *["lib 3; lib 2 does not break here"] * 2,
    ]


def test_a_break_that_all_versions_have_names_none() -> None:
    assert [each.changed_by for each in dated({"lib 3": True, "lib 4": True})] == [None, None]


def test_an_older_version_that_was_not_judged_proves_nothing() -> None:
    assert dated({"lib 2": False, "lib 3": True}, unjudged="lib 2") == [BROKEN]
