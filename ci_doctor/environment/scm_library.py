# SPDX-License-Identifier: Apache-2.0
"""Acts on git, by reading: asks the vcs-versioning library (of setuptools-scm) for a version without the unparsable tags.

Nothing is written: version files belong to the build. Private names of the library are used where it has no public one
(as in 2.6); the integration tests hold every answer against the library's own.
"""

import contextlib
import logging
import os
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import vcs_versioning._backends._git as scm_git
from vcs_versioning import Configuration, PyProjectData, ScmVersion, VcsEnvironment
from vcs_versioning._backends._scm_workdir import ScmWorkdir
from vcs_versioning._scm_version import _parse_version_tag, tag_to_version

from ci_doctor.environment.backends import Backend
from ci_doctor.environment.not_computable import NotComputable, backend_fails
from ci_doctor.environment.project import Project
from ci_doctor.environment.tags import (
    Described,
    Git,
    Tags,
    Version,
    is_git_describe,
    list_reachable,
    list_tags,
    picked_tag,
    reads_oddly,
    sort_tags,
    without_tags,
)
from ci_doctor.model.finding import Severity


def describe(project: Project) -> Described:
    """What setuptools-scm (or hatch-vcs, which calls it) says about the checkout; raises NotComputable."""
    with _quiet():
        try:
            return _describe(project)
        except NotComputable:
            raise
        except Exception as error:  # the project's own plugins and callables run in here
            raise _failed(error, project) from error


def _describe(project: Project) -> Described:
    config = _configuration(project)
    workdir = config.discover_workdir()
    if isinstance(workdir, scm_git.GitWorkdir):
        return _describe_git(workdir, config, project)
    found = workdir.get_scm_version() if workdir else None
    if workdir is None or found is None:
        raise _no_repository(Path(config.absolute_root), project)
    repository = str(workdir.path) if isinstance(workdir, ScmWorkdir) else None
    return Described(
        version=found.format(),
        repository=repository,
        tag=str(found.tag),  # mercurial, whose tags are left as they are
        distance=found.distance,
        dirty=found.dirty,
    )


def _describe_git(
    workdir: scm_git.GitWorkdir, config: Configuration, project: Project
) -> Described:
    git = _git(workdir)
    shallow = _is_shallow(workdir.path, git)
    if shallow:
        # Refusing is ours to decide, and fetching would change the checkout.
        config.scm.git.pre_parse = scm_git.GitPreParse.WARN_ON_SHALLOW
    command = _describe_command(config)
    tags = sort_tags(list_tags(git), command, lambda name: _parse(name, config))
    breaks_on: str | None = None
    reachable: tuple[str, ...] = ()
    if tags.unparsable and is_git_describe(command):
        reachable = list_reachable(git, tags.unparsable)
        first = picked_tag(git, command) if reachable else None
        breaks_on = first if first in tags.unparsable else None
        command = without_tags(command, tags.exclusions)
        config.scm.git.describe_command = command
    found = workdir.get_scm_version()
    if found is None:
        raise _no_repository(workdir.path, project)
    tag = _tag_of(found, tags, git, command)
    return Described(
        version=found.format(),
        repository=str(workdir.path),
        tag=tag,
        distance=found.distance,
        dirty=found.dirty,
        shallow=shallow,
        unparsable=reachable,
        breaks_on=breaks_on,
        suspicious=_reading(tag, tags, config) if tag else None,
    )


def _configuration(project: Project) -> Configuration:
    """The configuration that the build would use, from the same readers."""
    environment = VcsEnvironment.from_env("SETUPTOOLS_SCM", env=os.environ)
    options = dict(project.options)
    if project.reads_pyproject:
        path = project.directory / "pyproject.toml"
        return environment.build_config(
            name=str(path),
            dist_name=project.name,
            pyproject_data=_pyproject_data(project, path),
            **options,
        )
    # get_version(): relative paths are taken from the directory of the build, which is the project's.
    relative_to: Any = options.pop("relative_to", None)
    if relative_to is not None:
        relative_to = str(project.directory / relative_to)
    else:
        options["root"] = str(project.directory / options.get("root", "."))
    return environment.build_config_from_data(relative_to=relative_to, data=options)


def _pyproject_data(project: Project, path: Path) -> PyProjectData:
    build = project.pyproject.get("build-system", {})
    return PyProjectData(
        path=path,
        tool_name="setuptools_scm",
        project=project.pyproject.get("project", {}),
        section=project.scm_table,
        is_required=True,
        section_present=bool(project.scm_table),
        project_present="project" in project.pyproject,
        build_requires=build.get("requires", []),
        definition=project.pyproject,
    )


def _describe_command(config: Configuration) -> list[str]:
    """The library's own command or the project's, as the library splits it."""
    command = config.scm.git.describe_command
    if command is None:
        return scm_git.make_describe_command(config.tag.describe_match_glob())
    return (
        shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
    )


def _parse(name: str, config: Configuration) -> Version | None:
    try:
        return tag_to_version(name, config)
    except ValueError:  # the regex matched, its version group did not
        return None


def _tag_of(found: ScmVersion, tags: Tags, git: Git, command: list[str]) -> str | None:
    """The name of the tag that a version rests on: the library keeps only what it parsed from it."""
    names = [name for name, version in tags.versions.items() if str(version) == str(found.tag)]
    fallback = found.config.fallback_version or "0.0"
    if len(names) == 1 and str(found.tag) != str(found.config.version_cls(fallback)):
        return names[0]
    return picked_tag(git, command) if names else None


def _reading(tag: str, tags: Tags, config: Configuration) -> str | None:
    parsed = _parse_version_tag(tag, config)
    if (
        parsed is None
        or config.tag.strict is False
        or not reads_oddly(tag, parsed["version"], tags.versions)
    ):
        return None
    return parsed["version"]


def _git(workdir: scm_git.GitWorkdir) -> Git:
    """The library's own door: it scrubs GIT_* and names the git directory, so that another owner's repository can be read."""

    def run(*arguments: str) -> str | None:
        completed = workdir.run_git(arguments)
        return None if completed.returncode else completed.stdout

    return run


def _is_shallow(root: Path, git: Git) -> bool:
    if (root / ".git").is_dir():
        return (root / ".git" / "shallow").is_file()
    return git("rev-parse", "--is-shallow-repository") == "true"  # a worktree or a submodule


def _no_repository(root: Path, project: Project) -> NotComputable:
    above = next((parent for parent in root.parents if (parent / ".git").exists()), None)
    if above is None:
        return NotComputable(
            "version/no-repository",
            Severity.ERROR,
            f"{root} is not a git repository, and no file in it says a version",
            remedy="check the project out with git, or set `fallback_version`",
        )
    return NotComputable(
        "version/no-repository",
        Severity.ERROR,
        f"{root} lies inside the repository {above}, but setuptools-scm looks for one only in {root} itself",
        remedy=f'root = "{os.path.relpath(above, root)}"  # in {_place(project)}, or search_parent_directories = true',
    )


def _place(project: Project) -> str:
    """Where the options of `project` stand."""
    if project.backend is Backend.HATCH_VCS:
        return "[tool.hatch.version.raw-options]"
    return (
        "[tool.setuptools_scm]" if project.reads_pyproject else "the get_version() call of setup.py"
    )


def _failed(error: Exception, project: Project) -> NotComputable:
    if "implementations for entrypoint" not in str(error):
        return backend_fails(project, error)
    return NotComputable(
        "version/custom-scheme",
        Severity.WARNING,
        f"{project.label} computes its version by code of its own, which cannot be loaded here ({error})",
        remedy="install that plugin beside ci-doctor, or set the version by hand",
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hold back the library's warnings and log lines: what matters in them becomes a finding."""
    logger = logging.getLogger("vcs_versioning")
    handler, propagates = logging.NullHandler(), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
