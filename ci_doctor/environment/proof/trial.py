# SPDX-License-Identifier: Apache-2.0
"""Pure. What builds of one project have shown, and what that means."""

import shlex

from msgspec import Struct

from ci_doctor.environment import rules
from ci_doctor.environment.project import Project
from ci_doctor.environment.proof.metadata_result import BuiltMetadata
from ci_doctor.model.finding import Evidence, Finding, NextStep, RemedyKind, Severity, ShellCommand

_NAMED = 10


class Trial(Struct, frozen=True, kw_only=True):
    """Builds of one project's metadata.

    `expected` is the version to be built, None if only the reference tells. `actual` was built with
    the pins and all tags, `reference` without pins and without `tags`, the disturbing ones; each
    is None if it was not built. `reason` says why the trial ended early; `seconds` is its cost.
    """

    project: Project
    expected: str | None = None
    tags: tuple[str, ...] = ()
    actual: BuiltMetadata | None = None
    reference: BuiltMetadata | None = None
    reason: str | None = None
    seconds: float = 0.0

    @property
    def wanted(self) -> str | None:
        """The version that the build should have."""
        if self.expected is not None or self.reference is None:
            return self.expected
        return self.reference.version

    @property
    def is_proven(self) -> bool:
        """Whether the build has the version that it should have."""
        built = None if self.actual is None else self.actual.version
        return built is not None and self.wanted is not None and same_version(built, self.wanted)

    @property
    def fails_anyway(self) -> bool:
        """Whether the build fails with and without the disturbing tags."""
        return _failed(self.actual) and _failed(self.reference)

    @property
    def state(self) -> str:
        """What the trial has shown, in words that follow the project's name."""
        if self.is_proven and self.actual is not None:
            return f"built, the metadata says {self.actual.version} ({self.seconds:.1f} s)"
        if self.reason is not None:
            return f"not tried: {self.reason}"
        if self.fails_anyway:
            return "not proven: the build fails here, with the tags and without them"
        return f"broken ({self.seconds:.1f} s)"

    @property
    def line(self) -> str:
        """The trial in one line of a report."""
        return f"{self.project.label}: {self.state}"


def judge_trial(trial: Trial, *, demanded: bool) -> tuple[Finding, ...]:
    """The findings of a trial; `demanded` if a user asked for a proof in every case."""
    if trial.is_proven:
        return ()
    if trial.reason is not None or trial.fails_anyway:
        return (_not_proven(trial),) if demanded or trial.fails_anyway else ()
    return (_broken(trial),)


def same_version(first: str, second: str) -> bool:
    """Whether two texts are one version by PEP 440: metadata holds the normal form."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(first) == Version(second)
    except InvalidVersion:
        return first == second


def endangered(
    finding: Finding, nearest: str, tags: tuple[str, ...], reason: str | None
) -> Finding:
    """The finding of a project that is neither pinned nor tried, if its nearest tag is none.

    Nothing is known then but that a build would meet this tag, so it is an error. `reason` is why
    it was not tried.
    """
    text, kind = finding.remedy, finding.remedy_kind
    step = _without(tags, finding.remedy)
    if isinstance(step, ShellCommand):
        text, kind = step.words, RemedyKind.COMMAND
    return Finding(
        rule=finding.rule,
        severity=Severity.ERROR,
        summary=(
            f"{finding.summary}; its build would meet the tag {nearest!r}, which is no version, "
            f"and was not tried: {reason}"
        ),
        evidence=(*finding.evidence, *tag_evidence(tags)),
        remedy=text,
        remedy_kind=kind,
    )


def tag_evidence(tags: tuple[str, ...]) -> tuple[Evidence, ...]:
    """The references of tags."""
    return tuple(Evidence(excerpt=f"refs/tags/{tag}") for tag in tags)


def _not_proven(trial: Trial) -> Finding:
    failure = trial.actual.failure if trial.actual is not None else None
    why = trial.reason or f"the build fails here, with the tags and without them ({failure})"
    remedy = rules.NOT_PROVEN.remedy
    if trial.reason is None:
        remedy = "make the build work here, or accept the pin without a proof: `--verify never`"
    return rules.NOT_PROVEN.finding(
        f"the pin of {trial.project.label} was not proven by a build: {why}", remedy=remedy
    )


def _broken(trial: Trial) -> Finding:
    project = trial.project
    built = trial.actual.version if trial.actual is not None else None
    failure = trial.actual.failure if trial.actual is not None else None
    state = "with its pin" if project.source is not None else f"with {project.tool}, unpinned,"
    if failure is not None:
        effect = f"fails: {failure}"
    else:
        effect = f"has version {built}, not {trial.wanted}"
    tags = ", ".join(repr(tag) for tag in trial.tags[:_NAMED])
    cause = f"; tags that are not versions: {tags}" if tags else ""
    return rules.BROKEN_BUILD.finding(
        f"the build of {project.label} {state} {effect}{cause}",
        evidence=tag_evidence(trial.tags),
        remedy=_without(trial.tags, project.advice or rules.BROKEN_BUILD.remedy),
    )


def _without(tags: tuple[str, ...], advice: str | None) -> NextStep | None:
    """A command that makes the build work in this job; `advice` is what helps for good."""
    if not tags or len(tags) > _NAMED:
        return advice
    # Names of tags may hold what a shell would run.
    command = shlex.join(["git", "tag", "--delete", "--", *tags])
    if advice:
        command = f"{command}  # in this job's checkout; for good: {advice}"
    return ShellCommand(command)


def _failed(built: BuiltMetadata | None) -> bool:
    return built is not None and built.failure is not None
