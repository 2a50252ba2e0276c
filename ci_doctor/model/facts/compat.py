# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor compat`."""

from typing import Literal

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

    rule: its id. excerpt: the place in the caller. symbol: the dotted name of the callee's
    definition, or of the name that is gone. sentence: what Python does there. caught: `broadly` if an
    `except Exception` around it hides the error. is_certain: it happens whenever the place runs. now:
    the callee's definition. call: the right call, if there is only one.
    """

    rule: str
    file: str
    line: int
    excerpt: str
    symbol: str
    sentence: str
    caught: Literal["not", "broadly"] = "not"
    is_certain: bool = True
    now: DefinitionFact | None = None
    call: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether it is certain, and no handler hides it."""
        return self.is_certain and self.caught == "not"


class CompatFacts(Facts, frozen=True, kw_only=True):
    """What one package calls of others.

    resolved: places whose definition is known, by kind (`calls`, `imports`, `attributes`,
    `overrides`). unknown: places that nobody can judge. guarded: places that a handler
    or an undecided condition about versions protects. files: files of the caller that name a callee.
    share: of the places that concern the callee, 0 to 1, how many were judged. open_imports: imports
    that run with their module, that nothing handles, and that nobody can judge; a pass has none.
    """

    caller: CodeTreeFact
    callees: tuple[CodeTreeFact, ...]
    files: int
    resolved: dict[str, int]
    unknown: int
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
