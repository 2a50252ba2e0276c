# SPDX-License-Identifier: Apache-2.0
"""Code that a build runs to get a version: each is a finding, and never "nothing to pin"."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_doctor.environment.detection import git_command, git_reader, literal_name, read_project
from ci_doctor.environment.project import Project
from tests.support.cases import cases
from tests.support.machine_trees import write_tree

DYNAMIC = '[project]\nname = "x"\ndynamic = ["version"]\n'
DESCRIBES = 'import subprocess\n__version__ = subprocess.getoutput("git describe --tags")\n'


def backend(name: str, *requires: str, more: str = "") -> str:
    listed = ", ".join(f'"{each}"' for each in requires)
    return f'[build-system]\nrequires = [{listed}]\nbuild-backend = "{name}"\n{more}{DYNAMIC}'


def project(root: Path, files: Mapping[str, str]) -> Project:
    return read_project(write_tree(root, files))


SETUPTOOLS = backend("setuptools.build_meta", "setuptools")
ATTR = SETUPTOOLS + '[tool.setuptools.dynamic]\nversion = {attr = "x.__version__"}\n'
CFG = "[metadata]\nname = x\nversion = attr: x.__version__\n"
MESON = backend("mesonpy", "meson-python")
MESON_GIT = "project('x', 'c',\n  version: run_command('git', 'describe', '--tags', check: true).stdout().strip(),\n)\n"
MESON_SCRIPT = "project('x', 'c', version: run_command('tools/v.py').stdout())\n"
HATCHLING = backend("hatchling.build", "hatchling")
HATCH_CODE = HATCHLING + '[tool.hatch.version]\nsource = "code"\npath = "v.py"\n'
HATCH_HOOK = HATCHLING + "[tool.hatch.metadata.hooks.custom]\n"
IN_TREE = backend("build_x", "setuptools", more='backend-path = ["tools"]\n')
FLIT = backend("flit_core.buildapi", "flit_core")
SCIKIT = (
    backend("scikit_build_core.build", "scikit-build-core")
    + '[tool.scikit-build.metadata.version]\nprovider = "v"\nprovider-path = "tools"\n'
)
NAMED = backend("some.backend", "some", "some-git-versioning")
PBR = "from setuptools import setup\nsetup(setup_requires=['pbr>=2'], pbr=True)\n"


@cases(
    ("files", "tool"),
    {
        "attr": (
            {"pyproject.toml": ATTR, "x/__init__.py": DESCRIBES},
            "git describe in x/__init__.py",
        ),
        "attr through another module": (
            {
                "pyproject.toml": ATTR,
                "src/x/__init__.py": "from ._v import __version__\n",
                "src/x/_v.py": DESCRIBES,
            },
            "git describe in src/x/_v.py",
        ),
        "attr in setup.cfg": (
            {"pyproject.toml": SETUPTOOLS, "setup.cfg": CFG, "x.py": DESCRIBES},
            "git describe in x.py",
        ),
        "meson.build": (
            {"pyproject.toml": MESON, "meson.build": MESON_GIT},
            "git describe in meson.build",
        ),
        "a script of meson.build": (
            {"pyproject.toml": MESON, "meson.build": MESON_SCRIPT, "tools/v.py": DESCRIBES},
            "git describe in tools/v.py",
        ),
        "hatchling's code source": (
            {"pyproject.toml": HATCH_CODE, "v.py": DESCRIBES},
            "git describe in v.py",
        ),
        "a backend in the tree": (
            {"pyproject.toml": IN_TREE, "tools/build_x.py": DESCRIBES},
            "git describe in tools/build_x.py",
        ),
        "flit_core": ({"pyproject.toml": FLIT, "x.py": DESCRIBES}, "git describe in x.py"),
        "hatchling's metadata hook": (
            {"pyproject.toml": HATCH_HOOK, "hatch_build.py": DESCRIBES},
            "git describe in hatch_build.py",
        ),
        "a provider of scikit-build-core": (
            {"pyproject.toml": SCIKIT, "tools/v.py": DESCRIBES},
            "git describe in tools/v.py",
        ),
        "a requirement by its name": ({"pyproject.toml": NAMED}, "some-git-versioning"),
        "pbr in setup_requires": ({"setup.py": PBR}, "pbr"),
    },
)
def test_a_version_from_git_is_never_nothing_to_pin(
    tmp_path: Path, files: dict[str, str], tool: str
) -> None:
    found = project(tmp_path, files)
    assert (found.tool, found.is_fixed) == (tool, False)
    assert found.advice


LITERAL = "project('x', 'c', version: '1.0')\nrun_command('git', 'describe')\n"
SCM_FILES = (
    backend("setuptools.build_meta", "setuptools", "setuptools-scm")
    + '[tool.setuptools.dynamic]\nversion = {file = "V"}\n'
)


@cases(
    "files",
    {
        "a literal attr": {"pyproject.toml": ATTR, "x.py": '__version__ = "1.0"\nimport git\n'},
        "a literal in meson.build": {"pyproject.toml": MESON, "meson.build": LITERAL},
        "setuptools-scm for its list of files": {"pyproject.toml": SCM_FILES},
    },
)
def test_a_version_that_stands_in_a_file_needs_no_pin(
    tmp_path: Path, files: dict[str, str]
) -> None:
    assert project(tmp_path, files).is_fixed


def test_what_reads_the_variable_without_a_name_is_pinned_by_it(tmp_path: Path) -> None:
    meson = {
        "pyproject.toml": MESON + "[tool.setuptools_scm]\n",
        "meson.build": "project('x', 'c',\n  version: run_command(py, '-m', 'setuptools_scm').stdout(),\n)\n",
    }
    flit = backend("flit_scm:buildapi", "flit_scm") + "[tool.setuptools_scm]\n"
    of_meson = project(tmp_path / "meson", meson)
    of_flit = project(tmp_path / "flit", {"pyproject.toml": flit})
    assert of_flit.tool == "flit_scm"
    for found in (of_meson, of_flit):
        assert found.exported_variables == ("SETUPTOOLS_SCM_PRETEND_VERSION",)


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
