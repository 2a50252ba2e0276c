# SPDX-License-Identifier: Apache-2.0
"""Pure. One place of the caller that does not fit the callee, and what was looked at in all."""

from enum import StrEnum

from msgspec import Struct, field

from ci_doctor.compat.judging.binding import Mismatch
from ci_doctor.compat.judging.call_signature import CallSignature
from ci_doctor.compat.meaning.life import Caught


class BreakKind(StrEnum):
    """What is broken; each is a rule."""

    MODULE_GONE = "module-gone"
    NAME_GONE = "name-gone"
    ATTRIBUTE_GONE = "attribute-gone"
    CALL = "call"
    OVERRIDE = "override"
    ABSTRACT = "abstract"


class SourceLine(Struct, frozen=True, kw_only=True):
    """A line of a file below its tree."""

    file: str
    line: int
    text: str = ""


class Breakage(Struct, frozen=True, kw_only=True):
    """A break.

    symbol: the dotted name of the callee's definition, or of the name that is gone. sentence: what
    Python does there. is_certain: it happens whenever the place runs. definition: where the callee's definition stands now. call: the right call,
    if there is only one. signature: what the definition takes now.
    """

    kind: BreakKind
    at: SourceLine
    symbol: str
    sentence: str
    caught: Caught = Caught.NOT
    is_certain: bool = True
    definition: SourceLine | None = None
    signature: CallSignature | None = None
    mismatches: tuple[Mismatch, ...] = ()
    call: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether it is certain, and no handler hides it."""
        return self.is_certain and self.caught is Caught.NOT


class Judged(Struct, kw_only=True):
    """All that was looked at.

    resolved: places whose definition in the callee is known, by kind. unknown: places that concern
    the callee and that nobody can judge, by reason. guarded: places that a handler or a condition
    about versions protects. open_imports: those of the unknown ones that run when a module of the
    caller is imported, and that nothing handles.
    """

    breaks: list[Breakage] = field(default_factory=list)
    resolved: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    guarded: int = 0
    open_imports: list[SourceLine] = field(default_factory=list)
    files: int = 0
    unread: dict[str, str] = field(default_factory=dict)

    def count(self, kind: str) -> None:
        """One more place that is known."""
        self.resolved[kind] = self.resolved.get(kind, 0) + 1

    def miss(self, why: str) -> None:
        """One more place that nobody can judge."""
        self.unknown[why] = self.unknown.get(why, 0) + 1

    @property
    def errors(self) -> int:
        """Breaks that end a program."""
        return sum(each.is_error for each in self.breaks)

    @property
    def total(self) -> int:
        """Places that were judged."""
        return sum(self.resolved.values())

    @property
    def share(self) -> float:
        """The share of the places that concern the callee that was judged, 0 to 1."""
        places = self.total + sum(self.unknown.values())
        return self.total / places if places else 0.0
