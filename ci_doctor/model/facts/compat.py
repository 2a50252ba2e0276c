# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor compat`."""

from msgspec import Struct

from ci_doctor.model.facts import Facts


class CodeTreeFact(Struct, frozen=True, kw_only=True):
    """A package as it was named, and what its metadata say."""

    label: str
    distribution: str | None
    version: str | None


class DefinitionFact(Struct, frozen=True, kw_only=True):
    """A definition: its file, its line and its signature."""

    file: str
    line: int
    text: str


class BreakFact(Struct, frozen=True, kw_only=True):
    """One break.

    rule: its id. caught: `not`, or `broadly` if an `except Exception` around it hides the error.
    symbol: the dotted name in the callee. now: its definition in the callee. changed_by: of a
    matrix, the version that brought the break, and the one before it. call: the right call.
    """

    rule: str
    file: str
    line: int
    excerpt: str
    symbol: str
    sentence: str
    caught: str
    now: DefinitionFact | None = None
    changed_by: str | None = None
    call: str | None = None


class CompatFacts(Facts, frozen=True, kw_only=True):
    """What one package calls of others.

    resolved: places whose definition is known, by kind (`calls`, `imports`, `attributes`,
    `overrides`). unknown: places that nobody can judge, by reason. guarded: places that a handler
    or an undecided condition about versions protects. files: files of the caller that name a callee.
    share: of the places that concern the callee, 0 to 1, how many were judged. open_imports: imports
    that run with their module, that nothing handles, and that nobody can judge; a pass has none.
    """

    caller: CodeTreeFact
    callees: tuple[CodeTreeFact, ...]
    files: int
    resolved: dict[str, int]
    unknown: dict[str, int]
    guarded: int
    share: float
    open_imports: tuple[DefinitionFact, ...]
    unread: dict[str, str]
    breaks: tuple[BreakFact, ...]


class DirectionFact(Struct, frozen=True, kw_only=True):
    """What one version calls of the other.

    open_imports: how many imports at the top of modules nobody can judge. unread: how many files
    could not be parsed.
    """

    caller: str
    callee: str
    resolved: dict[str, int]
    open_imports: int
    unread: int
    breaks: tuple[BreakFact, ...]


class PairFact(Struct, frozen=True, kw_only=True):
    """Two versions, judged in both directions."""

    first: str
    second: str
    directions: tuple[DirectionFact, ...]


class MatrixFacts(Facts, frozen=True, kw_only=True):
    """All pairs of versions, in the order in which they were judged."""

    pairs: tuple[PairFact, ...]
