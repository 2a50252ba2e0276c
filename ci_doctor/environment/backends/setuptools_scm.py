# SPDX-License-Identifier: Apache-2.0
"""Reads git through the library of setuptools-scm, late: projects, variables, options."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ci_doctor.environment.packaging_files import PackagingFiles, scm_table
from ci_doctor.environment.project import Project
from ci_doctor.environment.requirement_bounds import is_forced_below
from ci_doctor.environment.setup_script import ScmOptions
from ci_doctor.environment.tags import Described

# The library's order of prefixes (vcs_versioning.overrides.EnvReader). Older setuptools-scm reads
# only the first, so that is the one we export.
PREFIXES: Final = ("SETUPTOOLS_SCM_PRETEND_VERSION", "VCS_VERSIONING_PRETEND_VERSION")
GENERIC: Final = PREFIXES[0]
# What a pretended version lacks: without it a version file has `__commit_id__ = None`
# (setuptools_scm._overrides PRETEND_METADATA_KEY, since 9.0; earlier ones ignore it).
_METADATA: Final = "SETUPTOOLS_SCM_PRETEND_METADATA"


class SetuptoolsScm:
    """setuptools-scm, by its tables in pyproject.toml or a call in setup.py."""

    name = "setuptools-scm"

    def describe(self, project: Project) -> Described:
        """What the library computes for the checkout; raises NotComputable."""
        from ci_doctor.environment.backends import scm_library

        return scm_library.describe(project, self.options_place(project))

    def read_names(self, project: Project, names: Sequence[str]) -> Sequence[str]:
        """Those that the library reads a version from; raises NotComputable."""
        from ci_doctor.environment.backends import scm_library

        return scm_library.read_names(project, names)

    def exported_variables(self, project: Project) -> tuple[str, ...]:
        """A distribution's own variable wherever it is read.

        The variable without a name sets the version of every project that is built in the same
        environment (https://github.com/pypa/setuptools-scm/issues/321).
        """
        scoped = (f"{GENERIC}_FOR_{suffix(project.name)}",) if project.name else ()
        return (GENERIC, *scoped) if project.reads_generic else scoped

    def commit_variables(self, project: Project, described: Described) -> Mapping[str, str]:
        """The commit, the distance and the state of the tree, for templates of a version file."""
        if described.node is None:
            return {}
        value = _inline_table(described)
        names = (name.replace(GENERIC, _METADATA) for name in self.exported_variables(project))
        return dict.fromkeys(names, value)

    def shared_variables(self) -> tuple[str, ...]:
        """The variables without a distribution's name."""
        return PREFIXES

    def deciding_variable(self, project: Project, environ: Mapping[str, str]) -> str | None:
        """The variable whose value the library would take; None if none is set.

        The first that exists wins, even an empty one, and an empty value means "ask git"
        (vcs_versioning.overrides EnvReader.read, _read_pretended_version_for). So an empty scoped
        variable hides a generic one.
        """
        if project.name is None or project.reads_generic:
            return _first_set(PREFIXES, environ)
        scoped = [f"{prefix}_FOR_{suffix(project.name)}" for prefix in PREFIXES]
        names = (*scoped, *PREFIXES)
        if not any(name in environ for name in names):
            names = tuple(_misspelt(environ, project.name))
        return _first_set(names, environ)

    def tag_setting(self, project: Project, glob: str, excluded: Sequence[str]) -> str:
        """A `git describe` command with which the library picks the tags that match `glob`.

        This option works with every setuptools-scm since 7.1.
        """
        options = [f"--exclude={name}" for name in excluded]
        command = ["git", "describe", "--dirty", "--tags", "--long", "--match", glob, *options]
        place = self.options_place(project)
        if not place.startswith("["):
            return f"get_version(git_describe_command={command!r})  # in setup.py"
        return f"{place}\ngit_describe_command = {json.dumps(command, ensure_ascii=False)}"

    def options_place(self, project: Project) -> str:
        """Where the options of `project` stand: a table's header, or words for a call."""
        if project.reads_pyproject:
            return "[tool.setuptools_scm]"
        return "the get_version() call of setup.py"


SETUPTOOLS_SCM: Final = SetuptoolsScm()


def with_setuptools_scm(
    files: PackagingFiles,
    options: ScmOptions,
    *,
    reads_pyproject: bool,
    source: SetuptoolsScm = SETUPTOOLS_SCM,
) -> Project:
    """A project whose version setuptools-scm computes with `options` from setup.py.

    `source` is how setuptools-scm is called, if not by setuptools.
    """
    section = scm_table(files.pyproject) if reads_pyproject else options.values
    dist_name = section.get("dist_name")
    name = dist_name if isinstance(dist_name, str) else files.distribution_name
    unnamed = name is None or (not reads_pyproject and dist_name is None)
    is_old = is_forced_below(files.requires, "setuptools-scm", "8")
    is_script = source is SETUPTOOLS_SCM and not reads_pyproject
    tool = "setuptools_scm.get_version() in setup.py" if is_script else source.name
    return Project(
        directory=files.directory,
        name=name,
        tool=tool,
        source=source,
        pyproject=files.pyproject,
        options=options.values,
        unreadable=options.unreadable,
        reads_pyproject=reads_pyproject,
        reads_generic=unnamed or (is_old and name is not None and _spells_otherwise(name)),
        abbreviates=is_forced_below(files.requires, "setuptools-scm", "9"),
    )


def _inline_table(described: Described) -> str:
    """A TOML table with the fields of the library's PretendMetadataDict."""
    fields = [f"node = {json.dumps(described.node)}"]
    if described.distance is not None:
        fields.append(f"distance = {described.distance}")
    fields.append(f"dirty = {json.dumps(described.dirty)}")
    return f"{{{', '.join(fields)}}}"


def _spells_otherwise(name: str) -> bool:
    """Whether setuptools-scm before 8 looks for another variable than `suffix` names.

    It puts the name in upper case and changes nothing else, so the variable of `my-pkg` would have
    a `-` in its name, which no shell can set.
    """
    return name.upper() != suffix(name)


def suffix(name: str) -> str:
    """A distribution's name as part of a variable's name: `my--pkg.x` is MY_PKG_X.

    That is PEP 503's form, then upper case and underscores.
    """
    return _canonical(name).replace("-", "_").upper()


def _canonical(name: str) -> str:
    parts = re.split(r"[-_.]+", name.lower())
    return "-".join(part for part in parts if part)


def _first_set(names: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """The first of `names` that is set; None if that one is empty, which hides the others."""
    for name in names:
        if name in environ:
            return name if environ[name] else None
    return None


def _misspelt(environ: Mapping[str, str], name: str) -> Iterator[str]:
    """Variables with another spelling of `name`: the library compares canonical names last."""
    for prefix in PREFIXES:
        start = f"{prefix}_FOR_"
        for variable in environ:
            if not variable.startswith(start):
                continue
            if _canonical(variable.removeprefix(start)) == _canonical(name):
                yield variable
