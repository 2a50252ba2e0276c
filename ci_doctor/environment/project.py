# SPDX-License-Identifier: Apache-2.0
"""Pure. One distribution, and what its build backend must be able to do for us."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from ci_doctor.environment.tags import Described


class VersionSource(Protocol):
    """A tool that computes versions from git, and the variables that override it.

    A new build backend is a module in `environment/backends/` and a row in `build_backends.py`. A
    plugin of several build backends, such as versioningit, gets no row: like `setuptools_scm.py`,
    it is a module that the `detect` functions of those backends use.
    """

    @property
    def name(self) -> str:
        """What a reader calls the tool."""

    def describe(self, project: "Project") -> Described:
        """What the tool computes for the checkout; raises NotComputable."""

    def read_names(self, project: "Project", names: Sequence[str]) -> Sequence[str]:
        """Those of `names` of tags from which the tool could read a version of `project`."""

    def exported_variables(self, project: "Project") -> tuple[str, ...]:
        """The variables that pin `project`, and as few other projects as possible."""

    def commit_variables(self, project: "Project", described: Described) -> Mapping[str, str]:
        """Variables that keep the commit beside a pinned version, with their values."""

    def shared_variables(self) -> tuple[str, ...]:
        """The variables that the tool reads for every project, whatever its name."""

    def deciding_variable(self, project: "Project", environ: Mapping[str, str]) -> str | None:
        """The variable in `environ` that the tool would take the version from; None if none is."""

    def tag_setting(self, project: "Project", glob: str, excluded: Sequence[str]) -> str:
        """Text for the project's files: only tags matching `glob`, without those in `excluded`."""


class Project(Struct, frozen=True, kw_only=True):
    """One distribution and what computes its version.

    `name` is the distribution's name, None if no file states it. `tool` is what a reader calls the
    backend. `source` computes the version; without a source the version stands in a file (`version`
    is the literal, if there is one), unless `advice` says what would help with an unsupported tool.
    `options` are the tool's, `unreadable` those that only running setup.py could show.
    `reads_pyproject`: the setuptools-scm table of `pyproject` applies beneath `options` (a call of
    get_version() reads no file). `reads_generic`: only the variable without a distribution's name
    reaches the tool. `abbreviates`: the build's setuptools-scm is so old that it shortens the commit
    as git does, and not to nine digits.
    """

    directory: Path
    name: str | None
    tool: str
    source: VersionSource | None = None
    version: str | None = None
    advice: str | None = None
    pyproject: dict[str, Any] = {}
    options: dict[str, Any] = {}
    unreadable: tuple[str, ...] = ()
    reads_pyproject: bool = False
    reads_generic: bool = False
    abbreviates: bool = False

    @property
    def label(self) -> str:
        """How a report names the project."""
        return self.name or self.directory.name

    @property
    def is_fixed(self) -> bool:
        """Whether the version stands in a file, so that there is nothing to pin."""
        return self.source is None and self.advice is None
