# SPDX-License-Identifier: Apache-2.0
"""Which commit or build of an archive a person means. Pure."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ci_doctor.correctness.archive.build_origin import BuildOrigin
from ci_doctor.correctness.archive.revocation import build_key
from ci_doctor.correctness.archive.surveyed_start import SurveyedStart
from ci_doctor.errors import UsageError

# As git abbreviates by default: a shorter beginning fits too many commits.
SHORTEST = 7
_NUMBER = re.compile("[0-9]+")
_SHOWN = 3
# Letters in common at the beginning, from which on a name is worth being shown as a near one.
_NEAR = 3


class RevocationTarget(Struct, frozen=True, kw_only=True):
    """A `commit`, or a `build` by its id, with the archived starts of it, newest first."""

    commit: str | None = None
    build: str | None = None
    starts: tuple[SurveyedStart, ...] = ()

    @property
    def key(self) -> str:
        """What its revocation is filed under."""
        return self.commit or build_key(self.build or "")

    @property
    def name(self) -> str:
        """`commit 0123456789ab`, `build 0190…`."""
        if self.commit:
            return f"commit {self.commit[:12]}"
        return f"build {self.build}"


def revocation_target(word: str, starts: Sequence[SurveyedStart]) -> RevocationTarget:
    """The commit or build that `word` names.

    It is a commit, the id of a build, a beginning of either with at least seven characters, or the
    number of a build. Raises UsageError, with the near ones, if it names none or several.
    """
    targets = _targets(starts)
    exact = [each for each in targets if word in _names(each)]
    beginning = [each for each in targets if _begins(each, word)]
    matching = exact or beginning
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(
            f"{word} names several of the archive: {_listed(matching)}",
            hint="write more of the commit, or the id of the build",
        )
    raise UsageError(f"the archive holds no start of {word}", hint=_hint(word, targets))


def _targets(starts: Sequence[SurveyedStart]) -> list[RevocationTarget]:
    """Every commit and every build with its starts, in order of the newest start."""
    by_commit: dict[str, list[SurveyedStart]] = {}
    by_build: dict[str, list[SurveyedStart]] = {}
    for start in starts:
        if start.origin is None:
            continue
        by_build.setdefault(start.origin.id, []).append(start)
        for commit in start.origin.commits:
            by_commit.setdefault(commit, []).append(start)
    targets = []
    for commit, of_commit in by_commit.items():
        targets.append(RevocationTarget(commit=commit, starts=tuple(of_commit)))
    for build, of_build in by_build.items():
        targets.append(RevocationTarget(build=build, starts=tuple(of_build)))
    return targets


def _names(target: RevocationTarget) -> set[str]:
    """Everything that names a target in full."""
    if target.commit:
        return {target.commit, target.commit.upper()}
    numbers = {str(origin.number) for origin in _origins(target) if origin.number is not None}
    return {str(target.build), *numbers}


def _origins(target: RevocationTarget) -> Iterable[BuildOrigin]:
    return [start.origin for start in target.starts if start.origin is not None]


def _begins(target: RevocationTarget, word: str) -> bool:
    if len(word) < SHORTEST:
        return False
    if target.commit:
        return target.commit.startswith(word.lower())
    return str(target.build).startswith(word)


def _hint(word: str, targets: Sequence[RevocationTarget]) -> str:
    if len(word) < SHORTEST and not _NUMBER.fullmatch(word):
        return f"write at least {SHORTEST} characters of the commit or of the build's id"
    near = [each for each in targets if _begins_alike(each, word)]
    if near:
        return f"the nearest are {_listed(near)}"
    if targets:
        return f"the newest are {_listed(targets)}; `archive list` prints all"
    return "no archived start names its build; remove its file instead"


def _begins_alike(target: RevocationTarget, word: str) -> bool:
    name = target.commit or str(target.build)
    return name[:_NEAR] == word[:_NEAR]


def _listed(targets: Sequence[RevocationTarget]) -> str:
    """`commit 0123456789ab (build 42 of main …)`, at most three."""
    shown = targets[:_SHOWN]
    words = [f"{target.name} ({target.starts[0].build})" for target in shown]
    more = len(targets) - _SHOWN
    if more > 0:
        words.append(f"and {more} more")
    return "; ".join(words)
