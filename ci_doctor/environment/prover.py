# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: tries the pins of a job's projects in builds, and says what that shows."""

import contextlib
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.environment import metadata_build, rules
from ci_doctor.environment.determinism import Verify
from ci_doctor.environment.metadata_build import (
    Bench,
    BuiltMetadata,
    InstalledPackages,
    Unbuildable,
)
from ci_doctor.environment.pins import ComputedVersion, judged
from ci_doctor.environment.project import Project
from ci_doctor.model.facts.diagnose import ProofFact
from ci_doctor.model.outcome import Evidence, Finding, NextStep, RemedyKind, Severity, ShellCommand
from ci_doctor.system import clock
from ci_doctor.system.files.access import own_directory

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
        return all(
            each is not None and each.failure is not None for each in (self.actual, self.reference)
        )

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

    @property
    def proof(self) -> ProofFact:
        """The same for programs."""
        return ProofFact(
            project=self.project.label,
            proven=self.is_proven,
            seconds=round(self.seconds, 3),
            reason=None if self.is_proven else self.state,
        )


class Prover:
    """Builds in a temporary directory, which is gone after the `with` block.

    `sites` are directories of installed packages beside our own.
    """

    def __init__(
        self,
        verify: Verify,
        timeout_s: float,
        environ: Mapping[str, str],
        sites: Sequence[Path] = (),
    ) -> None:
        self._verify = verify
        self._timeout_s = timeout_s
        self._environ = environ
        self._installed = InstalledPackages(sites)
        self._stack = contextlib.ExitStack()
        # By the directory of the project.
        self._benches: dict[Path, Bench] = {}
        self._references: dict[Path, BuiltMetadata | Unbuildable] = {}
        self._seconds: dict[Path, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def derive(self, computed: ComputedVersion, *, allow_fallback: bool) -> ComputedVersion:
        """The version that a build without the disturbing tags has, where it tells more.

        That is where nothing else can compute it, and wherever a proof is demanded. An error of
        `computed` stays, and so does all of it if nothing can be built.
        """
        project = computed.project
        described = computed.described
        is_refused = any(each.severity is Severity.ERROR for each in computed.findings)
        if project.source is None or is_refused:
            return computed
        is_from_git = described is not None and described.repository is not None
        if computed.version is not None and not (self._verify is Verify.ALWAYS and is_from_git):
            return computed
        reference = self._reference(project, _disturbing(computed))
        if isinstance(reference, Unbuildable) or reference.version is None:
            return computed
        if computed.version is None:
            described = metadata_build.describe(project.directory, reference.version)
            return judged(project, described, allow_fallback=allow_fallback)
        if same_version(computed.version, reference.version):
            return computed
        # The project's own backend has the last word.
        return replace(computed, version=reference.version)

    def try_pin(self, computed: ComputedVersion, exports: Mapping[str, str]) -> Trial | None:
        """Build with all tags and the pins; None if the project has nothing to prove."""
        project = computed.project
        tags = _disturbing(computed)
        if not self._is_worthwhile(computed, tags):
            return None
        environ = {**self._environ, **exports}
        name = project.deciding_variable(environ)
        trial = Trial(project=project, expected=environ[name] if name else None, tags=tags)
        reference = self._references.get(project.directory)
        if isinstance(reference, Unbuildable):
            return replace(trial, reason=reference.reason)
        try:
            actual = self._build(project, environ, is_needed=computed.version is None)
        except Unbuildable as error:
            return replace(trial, reason=error.reason)
        trial = replace(trial, actual=actual)
        if not trial.is_proven:
            reference = self._reference(project, tags)
            if not isinstance(reference, Unbuildable):
                trial = replace(trial, reference=reference)
            elif trial.expected is None:
                trial = replace(trial, reason=reference.reason)
        return replace(trial, seconds=self._seconds.get(project.directory, 0.0))

    def with_danger(self, computed: ComputedVersion, reason: str) -> ComputedVersion:
        """The same with an error if the project is not pinned and its nearest tag is no version.

        To be asked about a project that could not be built, for `reason`. Nothing is known then but
        that a build would meet this tag.
        """
        nearest = metadata_build.nearest_tag(computed.project.directory)
        tags = _disturbing(computed)
        if nearest is None or nearest not in tags:
            return computed
        findings = tuple(_endangered(each, nearest, tags, reason) for each in computed.findings)
        return replace(computed, findings=findings)

    def _is_worthwhile(self, computed: ComputedVersion, tags: Collection[str]) -> bool:
        project = computed.project
        if project.is_fixed:
            # By default a file's version is believed to be in that file.
            return self._verify is Verify.ALWAYS and project.version is None and bool(tags)
        if computed.version is None:
            return bool(tags)
        return computed.described is None or computed.described.repository is not None

    def _reference(self, project: Project, tags: Collection[str]) -> BuiltMetadata | Unbuildable:
        """The build without pins and without `tags`, made once; why, if nothing can be built."""
        place = project.directory
        if place not in self._references:
            pinning = (*project.shared_variables, *project.exported_variables)
            environ = {key: value for key, value in self._environ.items() if key not in pinning}
            try:
                self._references[place] = self._build(project, environ, without_tags=tags)
            except Unbuildable as error:
                self._references[place] = error
        return self._references[place]

    def _build(
        self,
        project: Project,
        environ: Mapping[str, str],
        *,
        is_needed: bool = True,
        without_tags: Collection[str] = (),
    ) -> BuiltMetadata:
        """One build; by default only a version that a build alone can tell may install anything."""
        start = clock.now()
        place = project.directory
        try:
            if place not in self._benches:
                self._benches[place] = Bench(
                    place,
                    Path(self._stack.enter_context(own_directory("build"))),
                    self._installed,
                    deadline=start + self._timeout_s,
                    is_demanded=self._verify is Verify.ALWAYS,
                    is_needed=is_needed,
                )
            return self._benches[place].build(environ, without_tags)
        finally:
            self._seconds[place] = self._seconds.get(place, 0.0) + clock.now() - start


def judge_trial(trial: Trial, *, demanded: bool) -> tuple[Finding, ...]:
    """The findings of a trial; `demanded` if a user asked for a proof in every case."""
    if trial.is_proven:
        return ()
    project = trial.project
    failure = trial.actual.failure if trial.actual is not None else None
    if trial.reason is not None or trial.fails_anyway:
        if not demanded and not trial.fails_anyway:
            return ()
        why = trial.reason or f"the build fails here, with the tags and without them ({failure})"
        remedy = rules.NOT_PROVEN.remedy
        if trial.reason is None:
            remedy = "make the build work here, or accept the pin without a proof: `--verify never`"
        summary = f"the pin of {project.label} was not proven by a build: {why}"
        return (rules.NOT_PROVEN.finding(summary, remedy=remedy),)
    built = trial.actual.version if trial.actual is not None else None
    effect = f"fails: {failure}" if failure else f"has version {built}, not {trial.wanted}"
    state = "with its pin" if project.source is not None else f"with {project.tool}, unpinned,"
    tags = ", ".join(repr(tag) for tag in trial.tags[:_NAMED])
    cause = f"; tags that are not versions: {tags}" if tags else ""
    return (
        rules.BROKEN_BUILD.finding(
            f"the build of {project.label} {state} {effect}{cause}",
            evidence=tag_evidence(trial.tags),
            remedy=_without(trial.tags, project.advice or rules.BROKEN_BUILD.remedy),
        ),
    )


def same_version(first: str, second: str) -> bool:
    """Whether two texts are one version by PEP 440: metadata holds the normal form."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(first) == Version(second)
    except InvalidVersion:
        return first == second


def tag_evidence(tags: tuple[str, ...]) -> tuple[Evidence, ...]:
    """The references of tags."""
    return tuple(Evidence(excerpt=f"refs/tags/{tag}") for tag in tags)


def _endangered(finding: Finding, nearest: str, tags: tuple[str, ...], reason: str) -> Finding:
    """The finding of a project that is neither pinned nor tried, as an error."""
    text, kind = finding.remedy, finding.remedy_kind
    step = _without(tags, finding.remedy)
    if isinstance(step, ShellCommand):
        text, kind = step.words, RemedyKind.COMMAND
    return replace(
        finding,
        severity=Severity.ERROR,
        summary=(
            f"{finding.summary}; its build would meet the tag {nearest!r}, which is no version, "
            f"and was not tried: {reason}"
        ),
        evidence=(*finding.evidence, *tag_evidence(tags)),
        remedy=text,
        remedy_kind=kind,
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


def _disturbing(computed: ComputedVersion) -> tuple[str, ...]:
    if computed.described is not None:
        return computed.described.unparsable
    return metadata_build.disturbing_tags(computed.project.directory)
