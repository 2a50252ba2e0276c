# SPDX-License-Identifier: Apache-2.0
"""Acts on files and processes: tries the pins of a job's projects in builds of their metadata."""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from ci_doctor.environment.project import Project
from ci_doctor.environment.proof import checkout, history
from ci_doctor.environment.proof.installed import InstalledPackages
from ci_doctor.environment.proof.metadata_result import BuiltMetadata
from ci_doctor.environment.proof.trial import Trial, endangered, same_version
from ci_doctor.environment.proof.unbuildable import Unbuildable
from ci_doctor.environment.proof.workbench import Workbench
from ci_doctor.environment.settings import Verify
from ci_doctor.environment.version_findings import ComputedVersion, judge
from ci_doctor.model.finding import Severity
from ci_doctor.system import clock
from ci_doctor.system.files.own_directory import own_directory


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
        self._benches: dict[Path, Workbench] = {}
        self._references: dict[Path, BuiltMetadata] = {}
        self._reasons: dict[Path, str] = {}
        self._seconds: dict[Path, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def derive(self, computed: ComputedVersion, *, allow_fallback: bool) -> ComputedVersion:
        """The version that a build without the disturbing tags has, where it tells more.

        That is where nothing else can compute it, and wherever a proof is demanded. An error of
        `computed` stays, and so does all of it if nothing can be built.
        """
        project = computed.project
        refused = any(finding.severity is Severity.ERROR for finding in computed.findings)
        if project.source is None or refused or not self._should_derive(computed):
            return computed
        reference = self._reference(project, _disturbing(computed))
        if reference is None or reference.version is None:
            return computed
        if computed.version is None:
            return _from_build(computed, reference.version, allow_fallback=allow_fallback)
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
        expected = self._expected(computed, exports)
        trial = Trial(project=project, expected=expected, tags=tags)
        if project.directory in self._reasons:
            return replace(trial, reason=self._reasons[project.directory])
        try:
            actual = self._build(project, {**self._environ, **exports}, computed=computed)
        except Unbuildable as error:
            return replace(trial, reason=error.reason)
        trial = replace(trial, actual=actual)
        if not trial.is_proven:
            trial = replace(trial, reference=self._reference(project, tags))
        if trial.reference is None and expected is None:
            trial = replace(trial, reason=self._reasons.get(project.directory, "no reference"))
        return replace(trial, seconds=self._seconds.get(project.directory, 0.0))

    def with_danger(self, computed: ComputedVersion, reason: str | None) -> ComputedVersion:
        """The same with an error if the project is not pinned and its nearest tag is no version.

        To be asked about a project that could not be built, for `reason`.
        """
        nearest = checkout.nearest_tag(computed.project.directory)
        tags = _disturbing(computed)
        if nearest is None or nearest not in tags:
            return computed
        findings = tuple(endangered(each, nearest, tags, reason) for each in computed.findings)
        return replace(computed, findings=findings)

    def _should_derive(self, computed: ComputedVersion) -> bool:
        if computed.version is None:
            return True
        described = computed.described
        is_from_git = described is not None and described.repository is not None
        return self._verify is Verify.ALWAYS and is_from_git

    def _is_worthwhile(self, computed: ComputedVersion, tags: Collection[str]) -> bool:
        project = computed.project
        if project.is_fixed:
            # By default a file's version is believed to be in that file.
            return self._verify is Verify.ALWAYS and project.version is None and bool(tags)
        if computed.version is None:
            return bool(tags)
        return computed.described is None or computed.described.repository is not None

    def _expected(self, computed: ComputedVersion, exports: Mapping[str, str]) -> str | None:
        source = computed.project.source
        environ = {**self._environ, **exports}
        name = source.deciding_variable(computed.project, environ) if source else None
        return environ[name] if name else None

    def _reference(self, project: Project, tags: Collection[str]) -> BuiltMetadata | None:
        """The build without pins and without `tags`, made once; None if nothing can be built."""
        place = project.directory
        if place not in self._references and place not in self._reasons:
            try:
                environ = self._without_pins(project)
                self._references[place] = self._build(project, environ, without_tags=tags)
            except Unbuildable as error:
                self._reasons[place] = error.reason
        return self._references.get(place)

    def _without_pins(self, project: Project) -> dict[str, str]:
        source = project.source
        if source is None:
            return dict(self._environ)
        pinning = (*source.shared_variables(), *source.exported_variables(project))
        return {name: value for name, value in self._environ.items() if name not in pinning}

    def _build(
        self,
        project: Project,
        environ: Mapping[str, str],
        *,
        computed: ComputedVersion | None = None,
        without_tags: Collection[str] = (),
    ) -> BuiltMetadata:
        start = clock.now()
        try:
            return self._bench(project, computed).build(environ, without_tags)
        finally:
            spent = self._seconds.get(project.directory, 0.0)
            self._seconds[project.directory] = spent + clock.now() - start

    def _bench(self, project: Project, computed: ComputedVersion | None) -> Workbench:
        """The place of a project's builds.

        By default only a project whose version a build alone can tell may install requirements.
        """
        bench = self._benches.get(project.directory)
        if bench is None:
            place = self._stack.enter_context(own_directory("build"))
            is_pinned = computed is not None and computed.version is not None
            bench = Workbench(
                project.directory,
                Path(place),
                self._installed,
                deadline=clock.now() + self._timeout_s,
                is_demanded=self._verify is Verify.ALWAYS,
                is_needed=not is_pinned,
            )
            self._benches[project.directory] = bench
        return bench


def _disturbing(computed: ComputedVersion) -> tuple[str, ...]:
    if computed.described is not None:
        return computed.described.unparsable
    return history.disturbing_tags(computed.project.directory)


def _from_build(
    computed: ComputedVersion, version: str, *, allow_fallback: bool
) -> ComputedVersion:
    described = history.describe(computed.project.directory, version)
    findings = judge(computed.project, described, allow_fallback=allow_fallback)
    refused = any(finding.severity is Severity.ERROR for finding in findings)
    return ComputedVersion(
        project=computed.project,
        version=None if refused else version,
        findings=findings,
        described=described,
    )
