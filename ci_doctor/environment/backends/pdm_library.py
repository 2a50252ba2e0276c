# SPDX-License-Identifier: Apache-2.0
"""Reads git: asks pdm-backend's own code for a version without the unparsable tags."""

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from pdm.backend.hooks.version import scm

from ci_doctor.environment import rules
from ci_doctor.environment.not_computable import NotComputable, backend_fails
from ci_doctor.environment.project import Project
from ci_doctor.environment.tags import (
    Described,
    Git,
    Tags,
    Version,
    disturbing_tags,
    list_tags,
    picked_tag,
    reads_oddly,
    sort_tags,
    without_foreign_text,
    without_tags,
)
from ci_doctor.model.finding import ShellCommand

# No tag can have this name (git-check-ref-format(1)), so a filter of it finds none.
_NO_TAG = "."

# pdm-backend imports `version_format` from the project, which is the project's code. We call it in
# a process of its own.
_FORMAT = """
import json, pathlib, sys, warnings
warnings.simplefilter("ignore")
from pdm.backend.base import Builder
from pdm.backend.hooks.version import DynamicVersionBuildHook
context = Builder(".").build_context(pathlib.Path("."))
print(DynamicVersionBuildHook().resolve_version_from_scm(context, **json.loads(sys.argv[1])))
"""


def describe(project: Project) -> Described:
    """What pdm-backend computes for the checkout; raises NotComputable."""
    try:
        return _describe(project)
    # A setting that is wrong, or a tag that its scheme refuses.
    except (re.error, ValueError, TypeError, AttributeError, AssertionError) as error:
        raise backend_fails(project, error) from error


def _describe(project: Project) -> Described:
    git, root = _repository(project)
    if root is None:
        return _from_fallback(project)
    tag_regex = project.options.get("tag_regex")
    pattern = _pattern(project)
    command = _describe_command(project)
    # The tag is picked here and named to pdm-backend as its filter: `tag_filter` is one `--match`
    # pattern and cannot exclude. The distance and the node of a tag do not depend on how it was
    # picked (pdm.backend.hooks.version.scm, 2.5).
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tags = _sorted(list_tags(git), project)
        tag = picked_tag(git, without_tags(command, tags))
        chosen = tag or _NO_TAG
        version = scm.get_version_from_scm(root, tag_regex=tag_regex, tag_filter=chosen)
    if version is None:
        return _from_fallback(project)
    reachable, breaks_on = disturbing_tags(git, command, tags)
    return Described(
        version=_format(project, version, chosen),
        repository=str(root),
        tag=tag,
        distance=version.distance or 0,
        dirty=version.dirty,
        shallow=git("rev-parse", "--is-shallow-repository") == "true",
        unparsable=reachable,
        breaks_on=breaks_on,
        suspicious=_odd_reading(tag, tags, pattern) if tag else None,
    )


def _describe_command(project: Project) -> list[str]:
    """The command that pdm-backend runs, with its own default for the pattern."""
    tag_filter = project.options.get("tag_filter") or "*.*"
    return ["git", "describe", "--tags", "--long", "--match", tag_filter]


def read_names(project: Project, names: Sequence[str]) -> Sequence[str]:
    """Those of `names` of tags that pdm-backend could read a version from; raises NotComputable."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(_sorted(names, project).versions)
    except (re.error, ValueError, TypeError, AttributeError, AssertionError) as error:
        raise backend_fails(project, error) from error


def _pattern(project: Project) -> re.Pattern[str]:
    tag_regex = project.options.get("tag_regex")
    return re.compile(tag_regex) if tag_regex else scm.DEFAULT_TAG_REGEX


def _sorted(names: Sequence[str], project: Project) -> Tags:
    """The tags that pdm-backend could pick; a regex of the project's own is its word on versions."""
    pattern = _pattern(project)
    tags = sort_tags(names, _describe_command(project), lambda name: _parse(name, pattern))
    if project.options.get("tag_regex"):
        return tags
    return without_foreign_text(tags, lambda name: _parts(name, pattern), project.name)


def _parts(tag: str, pattern: re.Pattern[str]) -> tuple[str, str] | None:
    text = _version_text(tag, pattern)
    return None if text is None else (tag[: tag.rindex(text)], text)


def _odd_reading(tag: str, tags: Tags, pattern: re.Pattern[str]) -> str | None:
    """The text that pdm-backend reads as version from `tag`, if the tag is hardly a release."""
    text = _version_text(tag, pattern)
    return text if text and reads_oddly(text, tags.versions) else None


def _format(project: Project, version: scm.SCMVersion, tag_filter: str) -> str:
    custom = project.options.get("version_format")
    if custom is None:
        return scm.default_version_formatter(version)
    options = {"tag_filter": tag_filter}
    for name in ("tag_regex", "version_format", "fallback_version"):
        if name in project.options:
            options[name] = project.options[name]
    # A version that is pinned already would be returned unformatted.
    environ = {name: value for name, value in os.environ.items() if name != "PDM_BUILD_SCM_VERSION"}
    completed = subprocess.run(
        [sys.executable, "-B", "-c", _FORMAT, json.dumps(options)],
        cwd=project.directory,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if completed.returncode == 0:
        return completed.stdout.splitlines()[-1]
    last_line = completed.stderr.strip().rpartition("\n")[2]
    raise NotComputable(
        rules.CUSTOM_SCHEME,
        f"{project.label} formats its version by code of its own (version_format = {custom!r}), "
        f"which fails here ({last_line})",
        remedy=ShellCommand("export PDM_BUILD_SCM_VERSION=VERSION"),
    )


def _repository(project: Project) -> tuple[Git, Path | None]:
    git = _git(project.directory)
    root = git("rev-parse", "--show-toplevel")
    if root is None:
        _refuse_other_owner(project.directory)
    return git, Path(root) if root else None


def _from_fallback(project: Project) -> Described:
    fallback = project.options.get("fallback_version")
    if not isinstance(fallback, str):
        raise NotComputable(
            rules.NO_REPOSITORY,
            f"{project.directory} is not in a git repository, "
            "and [tool.pdm.version] has no fallback_version",
            remedy="check the project out with git, or set `fallback_version`",
        )
    return Described(version=fallback)


def _version_text(tag: str, pattern: re.Pattern[str]) -> str | None:
    """The part of `tag` that pdm-backend reads as the version (its `_parse_version_tag`)."""
    match = pattern.match(tag)
    if match is None:
        return None
    return match.group(1 if pattern.groups == 1 else "version") or None


def _parse(tag: str, pattern: re.Pattern[str]) -> Version | None:
    """The version of `tag`; None also if pdm-backend would make 0.0.0 of it, with a warning."""
    if _version_text(tag, pattern) is None:
        return None
    try:
        version: Version = scm.tag_to_version(scm.Config(tag_regex=pattern, tag_filter=None), tag)
    except ValueError:  # InvalidVersion
        return None
    return version


def _git(directory: Path) -> Git:
    def run(*arguments: str) -> str | None:
        completed = _run(directory, arguments)
        return None if completed.returncode else completed.stdout.strip()

    return run


def _refuse_other_owner(directory: Path) -> None:
    """Raise NotComputable if git refuses a repository of another user.

    git reads no such repository (safe.directory, git-config(1)), and pdm-backend then behaves as if
    there were none.
    """
    error = _run(directory, ("rev-parse", "--show-toplevel")).stderr
    if "dubious ownership" in error:
        raise NotComputable(
            rules.OTHER_OWNER,
            f"git refuses to read {directory}, which belongs to another user",
            remedy=ShellCommand(f"git config --global --add safe.directory {directory}"),
        )


def _run(directory: Path, arguments: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    # GIT_DIR and its kin, set inside a hook, would point at another repository; pdm-backend drops
    # them too. GIT_EXEC_PATH is where git finds its own parts.
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name == "GIT_EXEC_PATH"
    }
    # In another language "dubious ownership" would not be recognised.
    environ["LC_ALL"] = "C"
    return subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env=environ,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
        timeout=60,
    )
