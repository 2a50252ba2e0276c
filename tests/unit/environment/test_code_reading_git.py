# SPDX-License-Identifier: Apache-2.0
"""Programs that take a version from git tags, and programs that do not."""

import pytest

from ci_doctor.environment.code_reading_git import git_command, git_reader, literal_name


@pytest.mark.parametrize(
    ("source", "tool"),
    [
        ('import subprocess\nv = subprocess.run(["git", "describe", "--tags"])', "git describe"),
        ('import os\nv = os.popen("git describe --tags").read()', "git describe"),
        ('def run_git(*a): return call("git", *a)\nv = run_git("describe")', "git describe"),
        ('v = run("git tag --list")', "git describe"),
        ("from setuptools_scm import get_version", "setuptools-scm"),
        ("def f():\n    import versioneer", "versioneer"),
        ("import dunamai as d", "dunamai"),
        ("import git\nv = git.Repo().tags", "GitPython"),
    ],
)
def test_a_reader_of_tags_is_named(source: str, tool: str) -> None:
    assert git_reader(source) == tool


@pytest.mark.parametrize(
    "source",
    [
        '"""Run `git describe` to see the version."""\n__version__ = "1.0"',
        'v = run(["git", "log", "-1", "--format=%H"])',
        'print("please describe the bug")',
        "from gitlab import x",
        "",
    ],
)
def test_what_only_mentions_git_is_not(source: str) -> None:
    assert git_reader(source) is None


def test_other_languages_are_searched_for_the_command() -> None:
    assert git_command("project('x', version: run_command('git', 'describe', '--tags'))")
    assert git_command("$(git -C . describe --tags)")
    assert git_command("run_command('git', 'rev-parse')") is None
    assert git_reader("x = = git describe") == "git describe"


@pytest.mark.parametrize(
    ("source", "literal"),
    [
        ('__version__ = "1.0"', True),
        ('__version__: str = "1.0"', True),
        ("__version__ = get()", False),
        ('__version__ = "1.0"\n__version__ = get()', False),
        ("from ._version import __version__", False),
        ("x = = 1", False),
    ],
)
def test_a_literal_is_what_setuptools_takes_without_running_code(
    source: str, literal: bool
) -> None:
    assert literal_name(source, "__version__") is literal
