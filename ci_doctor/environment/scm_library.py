# SPDX-License-Identifier: Apache-2.0
"""Reads git: asks the library of setuptools-scm for a version without the unparsable tags.

Nothing is written: version files belong to the build. The library (vcs-versioning) has no public
name for some parts that are needed here. pyproject.toml bounds its version for that reason, and
tests/unit/environment/test_scm_library.py fails when such a part is renamed; the
integration tests compare every answer with the library's own.
"""

import contextlib
import logging
import os
import shlex
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import vcs_versioning._backends._git as scm_git
from packaging.version import Version
from vcs_versioning import Configuration, PyProjectData, ScmVersion, VcsEnvironment
from vcs_versioning._backends._scm_workdir import ScmWorkdir
from vcs_versioning._config import DEFAULT_TAG_REGEX
from vcs_versioning._scm_version import _parse_version_tag, tag_to_version

from ci_doctor.environment import rules
from ci_doctor.environment.project import NotComputable, Project, scm_table, table
from ci_doctor.environment.tags import (
    Described,
    Git,
    Tags,
    disturbing_tags,
    is_git_describe,
    list_tags,
    picked_tag,
    reads_oddly,
    sort_tags,
    without_foreign_text,
    without_tags,
)


def describe(project: Project) -> Described:
    """What setuptools-scm (or hatch-vcs, which calls it) computes for the checkout.

    Raises NotComputable.
    """
    with _asking(project):
        config = _configuration(project)
        workdir = config.discover_workdir()
        if isinstance(workdir, scm_git.GitWorkdir):
            return _describe_git(workdir, config, project)
        version = workdir.get_scm_version() if workdir else None
        if workdir is None or version is None:
            raise _no_repository(Path(config.absolute_root), project)
        return Described(
            version=version.format(),
            repository=str(workdir.path) if isinstance(workdir, ScmWorkdir) else None,
            tag=str(version.tag),  # mercurial, whose tags are left as they are
            distance=version.distance,
            dirty=version.dirty,
        )


def read_names(project: Project, names: Sequence[str]) -> Sequence[str]:
    """Those of `names` of tags that the library could read a version from; raises NotComputable."""
    with _asking(project):
        config = _configuration(project)
        return list(_sorted(names, _describe_command(config), config, project).versions)


def _describe_git(
    workdir: scm_git.GitWorkdir, config: Configuration, project: Project
) -> Described:
    git = _git(workdir)
    if (workdir.path / ".git").is_dir():
        shallow = (workdir.path / ".git" / "shallow").is_file()
    else:  # a worktree or a submodule
        shallow = git("rev-parse", "--is-shallow-repository") == "true"
    if shallow:
        # Refusing is ours to decide, and fetching would change the checkout.
        config.scm.git.pre_parse = scm_git.GitPreParse.WARN_ON_SHALLOW
    command = _describe_command(config)
    tags = _sorted(list_tags(git), command, config, project)
    breaks_on: str | None = None
    reachable: tuple[str, ...] = ()
    # A describe command that is no `git describe` has no option to exclude tags.
    if tags.unparsable and is_git_describe(command):
        # Before the command is changed: the tag that the build itself would fail on.
        reachable, breaks_on = disturbing_tags(git, command, tags)
        command = without_tags(command, tags)
        config.scm.git.describe_command = command
    version = workdir.get_scm_version()
    if version is None:
        raise _no_repository(workdir.path, project)
    tag = _tag_of(version, tags, git, command)
    return Described(
        version=version.format(),
        repository=str(workdir.path),
        tag=tag,
        distance=version.distance,
        node=version.node,
        dirty=version.dirty,
        shallow=shallow,
        unparsable=reachable,
        breaks_on=breaks_on,
        suspicious=_odd_reading(tag, tags, config) if tag else None,
    )


def _configuration(project: Project) -> Configuration:
    """The configuration that the build would use, from the same readers."""
    environment = VcsEnvironment.from_env("SETUPTOOLS_SCM", env=os.environ)
    options = dict(project.options)
    if project.reads_pyproject:
        path = project.directory / "pyproject.toml"
        section = scm_table(project.pyproject)
        data = PyProjectData(
            path=path,
            tool_name="setuptools_scm",
            project=project.pyproject.get("project", {}),
            section=section,
            is_required=True,
            section_present=bool(section),
            project_present="project" in project.pyproject,
            build_requires=table(project.pyproject, "build-system").get("requires", []),
            definition=project.pyproject,
        )
        return environment.build_config(
            name=str(path), dist_name=project.name, pyproject_data=data, **options
        )
    # get_version(): relative paths are taken from the directory of the build, which is the
    # project's.
    relative_to: Any = options.pop("relative_to", None)
    if relative_to is not None:
        relative_to = str(project.directory / relative_to)
    else:
        options["root"] = str(project.directory / options.get("root", "."))
    return environment.build_config_from_data(relative_to=relative_to, data=options)


def _describe_command(config: Configuration) -> list[str]:
    """The library's own command or the project's, as the library splits it."""
    command = config.scm.git.describe_command
    if command is None:
        return scm_git.make_describe_command(config.tag.describe_match_glob())
    if isinstance(command, str):
        return shlex.split(command)
    return [os.fspath(word) for word in command]


def _parse(name: str, config: Configuration) -> Version | None:
    try:
        return tag_to_version(name, config)
    except ValueError:  # the regex matched, its version group did not
        return None


def _tag_of(version: ScmVersion, tags: Tags, git: Git, command: list[str]) -> str | None:
    """The name of the tag that a version rests on: the library keeps only the parsed version."""
    wanted = str(version.tag)
    names = [name for name, parsed in tags.versions.items() if str(parsed) == wanted]
    fallback = version.config.version_cls(version.config.fallback_version or "0.0")
    # Without a tag the library starts from the fallback, and a tag of that version may exist too.
    if len(names) == 1 and wanted != str(fallback):
        return names[0]
    return picked_tag(git, command) if names else None


def _sorted(
    names: Sequence[str], command: Sequence[str], config: Configuration, project: Project
) -> Tags:
    """The tags that the library could pick, by the project's own regex, prefix or `strict` if any."""
    tags = sort_tags(names, command, lambda name: _parse(name, config))
    regex = config.tag.regex.pattern
    if config.tag.strict is False or regex != DEFAULT_TAG_REGEX.pattern or config.tag.prefix:
        return tags
    return without_foreign_text(tags, lambda name: _parts(name, config), project.name)


def _parts(tag: str, config: Configuration) -> tuple[str, str] | None:
    parsed = _parse_version_tag(tag, config)
    return None if parsed is None else (parsed["prefix"], parsed["version"])


def _odd_reading(tag: str, tags: Tags, config: Configuration) -> str | None:
    """The text that the library reads as version from `tag`, if the tag is hardly a release."""
    parts = _parts(tag, config)
    # `strict = false` is the project's word that numbers without a dot are versions.
    if parts is None or config.tag.strict is False or not reads_oddly(parts[1], tags.versions):
        return None
    return parts[1]


def _git(workdir: scm_git.GitWorkdir) -> Git:
    """The library's own door to git: it reads a repository of another owner, without GIT_*."""

    def run(*arguments: str) -> str | None:
        completed = workdir.run_git(arguments)
        return None if completed.returncode else completed.stdout

    return run


def _no_repository(root: Path, project: Project) -> NotComputable:
    for above in root.parents:
        if (above / ".git").exists():
            setting = f'root = "{os.path.relpath(above, root)}"'
            return NotComputable(
                rules.NO_REPOSITORY,
                f"{root} lies inside the repository {above}, "
                f"but setuptools-scm looks for one only in {root} itself",
                remedy=f"{setting}  # in {project.options_place}, or search_parent_directories = true",
            )
    return NotComputable(
        rules.NO_REPOSITORY,
        f"{root} is not a git repository, and no file in it states a version",
        remedy="check the project out with git, or set `fallback_version`",
    )


def _failed(error: Exception, project: Project) -> NotComputable:
    # vcs_versioning._entrypoints raises ValueError with these words; it has no class for it.
    if "implementations for entrypoint" in str(error):
        return NotComputable(
            rules.CUSTOM_SCHEME,
            f"{project.label} computes its version by code of its own, "
            f"which cannot be loaded here ({error})",
            remedy="install that plugin beside ci-doctor, or set the version by hand",
        )
    first_line = str(error).partition("\n")[0]
    return NotComputable(
        rules.NOT_COMPUTABLE,
        f"{project.tool} cannot compute a version for {project.label}, so its build would fail too "
        f"({type(error).__name__}: {first_line})",
    )


@contextlib.contextmanager
def _asking(project: Project) -> Iterator[None]:
    """Suppress the library's warnings and log lines: what matters in them becomes a finding.

    The project's own plugins and callables run in here: any error of theirs is NotComputable.
    """
    logger = logging.getLogger("vcs_versioning")
    handler = logging.NullHandler()
    propagates = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except NotComputable:
        raise
    except Exception as error:
        raise _failed(error, project) from error
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
