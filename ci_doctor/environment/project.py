# SPDX-License-Identifier: Apache-2.0
"""Pure. One distribution, what computes its version, and the variables that pin it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ci_doctor.environment.tags import Described
from ci_doctor.model.finding import NextStep, Rule

# The library's order of prefixes (vcs_versioning.overrides.EnvReader). Older setuptools-scm reads
# only the first, so that is the one we export.
PREFIXES: Final = ("SETUPTOOLS_SCM_PRETEND_VERSION", "VCS_VERSIONING_PRETEND_VERSION")
GENERIC: Final = PREFIXES[0]
# What a pretended version lacks: without it a version file has `__commit_id__ = None`
# (setuptools_scm._overrides PRETEND_METADATA_KEY, since 9.0; earlier ones ignore it).
_METADATA: Final = "SETUPTOOLS_SCM_PRETEND_METADATA"


class VersionSource(Struct, frozen=True, kw_only=True):
    """A tool that computes versions from git, and the `variable` that overrides it for all projects.

    `is_library`: setuptools-scm's library computes the version here; otherwise a build alone tells it.
    `is_scoped`: the library also looks for a variable with the distribution's name in it.
    `options_place` is where its options stand, if that is one place.
    """

    name: str
    variable: str = GENERIC
    is_library: bool = False
    is_scoped: bool = False
    options_place: str = ""


SETUPTOOLS_SCM: Final = VersionSource(name="setuptools-scm", is_library=True, is_scoped=True)
# It calls setuptools-scm's library with the options of hatch's own table, and passes no name on.
HATCH_VCS: Final = VersionSource(
    name="hatch-vcs", is_library=True, options_place="[tool.hatch.version.raw-options]"
)


class Project(Struct, frozen=True, kw_only=True):
    """One distribution and what computes its version.

    `name` is the distribution's name, None if no file states it. `tool` is what a reader calls the
    backend. `source` computes the version; without a source the version stands in a file (`version`
    is the literal, if there is one), unless `advice` says what would help with an unsupported tool.
    `options` are the tool's, `unreadable` those that only running
    setup.py could show. `reads_pyproject`: the setuptools-scm table of `pyproject` applies beneath
    `options` (a call of get_version() reads no file). `reads_generic`: only the variable without a
    distribution's name reaches the tool. `abbreviates`: the build's setuptools-scm is so old that it
    shortens the commit as git does, and not to nine digits.
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

    @property
    def options_place(self) -> str:
        """Where the options of the library stand: a table's header, or words for a call."""
        if self.source is not None and self.source.options_place:
            return self.source.options_place
        if self.reads_pyproject:
            return "[tool.setuptools_scm]"
        return "the get_version() call of setup.py"

    @property
    def shared_variables(self) -> tuple[str, ...]:
        """The variables that the tool reads for every project, whatever its name."""
        if self.source is None:
            return ()
        return PREFIXES if self.source.variable == GENERIC else (self.source.variable,)

    @property
    def exported_variables(self) -> tuple[str, ...]:
        """The variables that pin this project, and as few other projects as possible.

        The variable without a name sets the version of every project that is built in the same
        environment (https://github.com/pypa/setuptools-scm/issues/321).
        """
        if self.source is None:
            return ()
        generic = (self.source.variable,)
        if not self.source.is_library or (self.reads_generic and not self.source.is_scoped):
            return generic
        scoped = (f"{GENERIC}_FOR_{suffix(self.name)}",) if self.name else ()
        return (*generic, *scoped) if self.reads_generic else scoped

    def commit_variables(self, described: Described) -> Mapping[str, str]:
        """Variables that keep the commit beside a pinned version, for templates of a version file.

        The value is a TOML table with the fields of the library's PretendMetadataDict.
        """
        if described.node is None or self.source is None or not self.source.is_library:
            return {}
        fields = [f"node = {json.dumps(described.node)}"]
        if described.distance is not None:
            fields.append(f"distance = {described.distance}")
        fields.append(f"dirty = {json.dumps(described.dirty)}")
        names = (name.replace(GENERIC, _METADATA) for name in self.exported_variables)
        return dict.fromkeys(names, f"{{{', '.join(fields)}}}")

    def deciding_variable(self, environ: Mapping[str, str]) -> str | None:
        """The variable in `environ` that the tool would take the version from; None if none is.

        The first that exists wins, even an empty one, and an empty value means "ask git"
        (vcs_versioning.overrides EnvReader.read, _read_pretended_version_for). So an empty scoped
        variable hides a generic one.
        """
        names: Sequence[str] = self.shared_variables
        is_named = self.source is not None and self.source.is_library and not self.reads_generic
        if self.name is not None and is_named:
            names = [f"{prefix}_FOR_{suffix(self.name)}" for prefix in PREFIXES] + list(PREFIXES)
            if not any(name in environ for name in names):
                names = list(_misspelt(environ, self.name))
        for name in names:
            if name in environ:
                return name if environ[name] else None
        return None

    def tag_setting(self, glob: str, excluded: Sequence[str]) -> str:
        """Text for the project's files: only tags matching `glob`, without those in `excluded`.

        The option works with every setuptools-scm since 7.1.
        """
        if self.source is None or not self.source.is_library:
            return self.advice or ""
        options = [f"--exclude={name}" for name in excluded]
        command = ["git", "describe", "--dirty", "--tags", "--long", "--match", glob, *options]
        if not self.options_place.startswith("["):
            return f"get_version(git_describe_command={command!r})  # in setup.py"
        setting = json.dumps(command, ensure_ascii=False)
        return f"{self.options_place}\ngit_describe_command = {setting}"


class NotComputable(Exception):  # noqa: N818 - not an error of ci-doctor: it ends as a finding
    """Why a version cannot be computed here; `finding` is for the report."""

    def __init__(self, rule: Rule, summary: str, *, remedy: NextStep | None = None) -> None:
        super().__init__(summary)
        self.finding = rule.finding(summary, remedy=remedy or rule.remedy)


def suffix(name: str) -> str:
    """A distribution's name as part of a variable's name: `my--pkg.x` is MY_PKG_X.

    That is PEP 503's form, then upper case and underscores.
    """
    return _canonical(name).replace("-", "_").upper()


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.lower()).strip("-")


def _misspelt(environ: Mapping[str, str], name: str) -> Iterator[str]:
    """Variables with another spelling of `name`: the library compares canonical names last."""
    for prefix in PREFIXES:
        start = f"{prefix}_FOR_"
        for variable in environ:
            spelt = variable.removeprefix(start)
            if spelt != variable and _canonical(spelt) == _canonical(name):
                yield variable
