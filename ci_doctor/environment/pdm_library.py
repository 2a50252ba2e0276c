# SPDX-License-Identifier: Apache-2.0
"""Acts on git, by reading: asks pdm-backend's own code for a version without the unparsable tags."""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

from pdm.backend.hooks.version import scm

from ci_doctor.environment.not_computable import NotComputable, backend_fails
from ci_doctor.environment.project import Project
from ci_doctor.environment.tags import (
    Described,
    Git,
    Version,
    list_reachable,
    list_tags,
    picked_tag,
    reads_oddly,
    sort_tags,
    without_tags,
)
from ci_doctor.model.finding import Severity

# No tag can have this name (git-check-ref-format(1)), so a filter of it finds none.
_NO_TAG = "."

# pdm-backend imports a `version_format` from the project; so do we, in a process of its own.
_FORMAT = """
import json, pathlib, sys, warnings
warnings.simplefilter("ignore")
from pdm.backend.base import Builder
from pdm.backend.hooks.version import DynamicVersionBuildHook
context = Builder(".").build_context(pathlib.Path("."))
print(DynamicVersionBuildHook().resolve_version_from_scm(context, **json.loads(sys.argv[1])))
"""


def describe(project: Project) -> Described:
    """What pdm-backend says about the checkout; raises NotComputable."""
    try:
        return _describe(project)
    # A setting that is wrong, or a tag that its scheme refuses.
    except (re.error, ValueError, TypeError, AttributeError, AssertionError) as error:
        raise backend_fails(project, error) from error


def _describe(project: Project) -> Described:
    """Pick the tag here and name it to pdm-backend as the filter.

    Its `tag_filter` is one `--match` pattern and cannot exclude; the distance and the node of a tag do not depend on how
    it was found (pdm.backend.hooks.version.scm, 2.5).
    """
    git, root = _repository(project)
    if root is None:
        return _from_fallback(project)
    tag_regex, tag_filter = (
        project.options.get("tag_regex"),
        project.options.get("tag_filter") or "*.*",
    )
    pattern = re.compile(tag_regex) if tag_regex else scm.DEFAULT_TAG_REGEX
    command = ["git", "describe", "--tags", "--long", "--match", tag_filter]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tags = sort_tags(list_tags(git), command, lambda name: _parse(name, pattern))
        tag = picked_tag(git, without_tags(command, tags.exclusions))
        found = scm.get_version_from_scm(root, tag_regex=tag_regex, tag_filter=tag or _NO_TAG)
    if found is None:
        return _from_fallback(project)
    reachable = list_reachable(git, tags.unparsable) if tags.unparsable else ()
    first = picked_tag(git, command) if reachable else None
    text = _version_text(tag, pattern) if tag else None
    return Described(
        version=_format(project, found, tag or _NO_TAG),
        repository=str(root),
        tag=tag,
        distance=found.distance or 0,
        dirty=found.dirty,
        shallow=git("rev-parse", "--is-shallow-repository") == "true",
        unparsable=reachable,
        breaks_on=first if first in tags.unparsable else None,
        suspicious=text if tag and text and reads_oddly(tag, text, tags.versions) else None,
    )


def _format(project: Project, found: scm.SCMVersion, tag_filter: str) -> str:
    custom = project.options.get("version_format")
    if custom is None:
        return scm.default_version_formatter(found)
    kept = ("tag_regex", "version_format", "fallback_version")
    options = {name: project.options[name] for name in kept if name in project.options} | {
        "tag_filter": tag_filter
    }
    ran = subprocess.run(
        [sys.executable, "-B", "-c", _FORMAT, json.dumps(options)],
        cwd=project.directory,
        env={name: value for name, value in os.environ.items() if name != "PDM_BUILD_SCM_VERSION"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if ran.returncode == 0:
        return ran.stdout.splitlines()[-1]
    raise NotComputable(
        "version/custom-scheme",
        Severity.WARNING,
        f"{project.label} formats its version by code of its own (version_format = {custom!r}), which fails here "
        f"({ran.stderr.strip().rpartition(chr(10))[2]})",
        remedy="export PDM_BUILD_SCM_VERSION=VERSION",
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
            "version/no-repository",
            Severity.ERROR,
            f"{project.directory} is not in a git repository, and [tool.pdm.version] has no fallback_version",
            remedy="check the project out with git, or set `fallback_version`",
        )
    return Described(version=fallback)


def _version_text(tag: str, pattern: re.Pattern[str]) -> str | None:
    """The part of `tag` that pdm-backend takes for the version (its `_parse_version_tag`)."""
    match = pattern.match(tag)
    if match is None:
        return None
    return match.group(1 if pattern.groups == 1 else "version") or None


def _parse(tag: str, pattern: re.Pattern[str]) -> Version | None:
    """None also where pdm-backend makes 0.0.0 of a tag, with a warning."""
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
    """Tell a refusal apart: git reads no repository of another user (safe.directory, git-config(1)), and pdm-backend takes that for no repository."""
    said = _run(directory, ("rev-parse", "--show-toplevel")).stderr
    if "dubious ownership" in said:
        raise NotComputable(
            "version/other-owner",
            Severity.ERROR,
            f"git refuses to read {directory}, which belongs to another user",
            remedy=f"git config --global --add safe.directory {directory}",
        )


def _run(directory: Path, arguments: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    # GIT_DIR and its kin, set inside a hook, would point at another repository; pdm-backend drops them too.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name == "GIT_EXEC_PATH"
    }
    return subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env={**kept, "LC_ALL": "C"},
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
        timeout=60,
    )
