# SPDX-License-Identifier: Apache-2.0
"""The part of a plan for a test whose ending depends on the tests before it. Pure.

A victim fails after a polluter, a brittle test passes only after a state-setter. Which test that is
comes from a bisection, what it leaves from runs in which that is put back (iFixFlakies, see
explain/kinds.py).
"""

from collections.abc import Generator

import msgspec

from ci_doctor.pytest_runs.explain.bisection import Candidates, Search, TrialOf, one_of, some_of
from ci_doctor.pytest_runs.explain.confirmation import strictly
from ci_doctor.pytest_runs.explain.explanation import Explanation
from ci_doctor.pytest_runs.explain.kinds import FlakyKind
from ci_doctor.pytest_runs.explain.suspect import Suspect
from ci_doctor.pytest_runs.explain.trial import (
    BudgetSpent,
    Ending,
    FlakyTrial,
    LeftItem,
    TrialResult,
)

Left = tuple[LeftItem, ...]

_THREAD = "thread:thread"
# By the first part of an item's id. If several items are each enough, the last kind is named: a
# process that locks a file says more than the file, and a variable more than what was made from it.
_KINDS = {
    "state": FlakyKind.STATE,
    "file": FlakyKind.FILE,
    "directory": FlakyKind.DIRECTORY,
    "environ": FlakyKind.ENVIRONMENT,
    "thread": FlakyKind.CONCURRENCY,
    "process": FlakyKind.PROCESS,
}
_RANKS = {name: rank for rank, name in enumerate(_KINDS)}


def order_plan(
    suspect: Suspect, control: FlakyTrial, wanted: Ending
) -> Generator[FlakyTrial, TrialResult, Explanation | None]:
    """The explanation of a suspect that ends as `wanted` in order, and otherwise alone.

    None if no test before it is confirmed: then the two endings differed by chance.
    """

    def after(tests: Candidates) -> FlakyTrial:
        return msgspec.structs.replace(control, before=tests)

    known = yield from _known(suspect, after, wanted)
    culprits = yield from one_of(known or suspect.before, after, wanted)
    is_confirmed = yield from strictly(after(culprits), control, wanted)
    if not is_confirmed:
        culprits = yield from some_of(suspect.before, after, wanted)
        is_confirmed = yield from strictly(after(culprits), control, wanted)
    if not is_confirmed:
        return None
    explanation = Explanation(
        test=suspect.test,
        kind=_kind((), wanted),
        culprit=", ".join(culprits),
        cause=after(culprits),
        control=control,
        expected=wanted,
    )
    try:
        imported = yield from _imported(culprits, control, wanted)
        if imported is not None:
            return imported
        left = yield from _left(after(culprits), wanted)
    except BudgetSpent:
        # The culprit is confirmed, whatever it leaves.
        return msgspec.structs.replace(explanation, is_searched=False)
    sentences = tuple(each.sentence for each in left)
    return msgspec.structs.replace(explanation, kind=_kind(left, wanted), left=sentences)


def _known(suspect: Suspect, after: TrialOf, wanted: Ending) -> Search:
    """The culprits of other suspects, if they are enough for this one; one test breaks many at times."""
    known = tuple(each for each in suspect.before if each in suspect.likely)
    if not known:
        return ()
    result = yield after(known)
    return known if result.ending is wanted else ()


def _kind(left: Left, wanted: Ending) -> FlakyKind:
    if wanted is Ending.PASSED:
        return FlakyKind.BRITTLE
    if not left:
        return FlakyKind.STATE
    return _KINDS[left[-1].id.partition(":")[0]]


def _rank(item: str) -> int:
    return _RANKS[item.partition(":")[0]]


def _imported(
    culprits: Candidates, control: FlakyTrial, wanted: Ending
) -> Generator[FlakyTrial, TrialResult, Explanation | None]:
    """The explanation if it is enough to import the culprits' files."""
    own = control.target.partition("::")[0]
    files = dict.fromkeys(each.partition("::")[0] for each in culprits)
    others = tuple(each for each in files if each != own)
    if not others:
        return None
    cause = msgspec.structs.replace(control, collect=others)
    result = yield cause
    if result.ending is not wanted:
        return None
    is_confirmed = yield from strictly(cause, control, wanted)
    if not is_confirmed:
        return None
    return Explanation(
        test=control.target,
        kind=FlakyKind.IMPORT if wanted is Ending.FAILED else FlakyKind.BRITTLE,
        culprit=", ".join(others),
        cause=cause,
        control=control,
        expected=wanted,
    )


def _left(cause: FlakyTrial, wanted: Ending) -> Generator[FlakyTrial, TrialResult, Left]:
    """What the culprits leave that decides the ending; empty if it is nothing that we can see."""

    def restored(ids: Candidates) -> FlakyTrial:
        return msgspec.structs.replace(cause, restore=ids)

    shown = yield restored(())
    by_id = {each.id: each for each in shown.left}
    ids = tuple(sorted((each for each in by_id if each != _THREAD), key=_rank))
    if ids:
        result = yield restored(ids)
        if result.ending is wanted.opposite:
            needed = yield from one_of(ids, restored, wanted.opposite)
            result = yield restored(needed)
            if result.ending is not wanted.opposite:
                needed = yield from some_of(ids, restored, wanted.opposite)
            return tuple(by_id[each] for each in needed)
    if _THREAD in by_id:
        # A thread may have changed the rest: that is put back too, and the thread never starts.
        result = yield restored((*ids, _THREAD))
        if result.ending is wanted.opposite:
            return (by_id[_THREAD],)
    return ()
