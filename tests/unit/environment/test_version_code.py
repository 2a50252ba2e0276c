# SPDX-License-Identifier: Apache-2.0
"""Code that a build runs to get a version: each is a finding, and never "nothing to pin"."""

from pathlib import Path

import pytest

from ci_doctor.environment.detection import git_command, git_reader, literal_name, read_project
from ci_doctor.environment.project import Project

DYNAMIC = '[project]\nname = "x"\ndynamic = ["version"]\n'
DESCRIBES = 'import subprocess\n__version__ = subprocess.getoutput("git describe --tags")\n'


def backend(name: str, *requires: str, more: str = "") -> str:
    listed = ", ".join(f'"{each}"' for each in requires)
    return f'[build-system]\nrequires = [{listed}]\nbuild-backend = "{name}"\n{more}{DYNAMIC}'


def project(root: Path, **files: str) -> Project:
    for name, text in files.items():
        path = root / name.replace("__s__", "/").replace("__d__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_project(root)


SETUPTOOLS = backend("setuptools.build_meta", "setuptools")
MESON = backend("mesonpy", "meson-python")


@pytest.mark.parametrize(
    ("files", "tool"),
    [
        pytest.param(
            {
                "pyproject__d__toml": SETUPTOOLS
                + '[tool.setuptools.dynamic]\nversion = {attr = "x.__version__"}\n',
                "x__s____init____d__py": DESCRIBES,
            },
            "git describe in x/__init__.py",
            id="attr",
        ),
        pytest.param(
            {
                "pyproject__d__toml": SETUPTOOLS
                + '[tool.setuptools.dynamic]\nversion = {attr = "x.__version__"}\n',
                "src__s__x__s____init____d__py": "from ._v import __version__\n",
                "src__s__x__s___v__d__py": DESCRIBES,
            },
            "git describe in src/x/_v.py",
            id="attr through another module",
        ),
        pytest.param(
            {
                "pyproject__d__toml": backend("setuptools.build_meta", "setuptools"),
                "setup__d__cfg": "[metadata]\nname = x\nversion = attr: x.__version__\n",
                "x__d__py": DESCRIBES,
            },
            "git describe in x.py",
            id="attr in setup.cfg",
        ),
        pytest.param(
            {
                "pyproject__d__toml": MESON,
                "meson__d__build": "project('x', 'c',\n  version: run_command('git', 'describe', '--tags', check: true).stdout().strip(),\n)\n",
            },
            "git describe in meson.build",
            id="meson.build",
        ),
        pytest.param(
            {
                "pyproject__d__toml": MESON,
                "meson__d__build": "project('x', 'c', version: run_command('tools/v.py').stdout())\n",
                "tools__s__v__d__py": DESCRIBES,
            },
            "git describe in tools/v.py",
            id="a script of meson.build",
        ),
        pytest.param(
            {
                "pyproject__d__toml": backend("hatchling.build", "hatchling")
                + '[tool.hatch.version]\nsource = "code"\npath = "v.py"\n',
                "v__d__py": DESCRIBES,
            },
            "git describe in v.py",
            id="hatchling's code source",
        ),
        pytest.param(
            {
                "pyproject__d__toml": backend(
                    "build_x", "setuptools", more='backend-path = ["tools"]\n'
                ),
                "tools__s__build_x__d__py": DESCRIBES,
            },
            "git describe in tools/build_x.py",
            id="a backend in the tree",
        ),
        pytest.param(
            {
                "pyproject__d__toml": backend("flit_core.buildapi", "flit_core"),
                "x__d__py": DESCRIBES,
            },
            "git describe in x.py",
            id="flit_core",
        ),
        pytest.param(
            {
                "pyproject__d__toml": backend("hatchling.build", "hatchling")
                + "[tool.hatch.metadata.hooks.custom]\n",
                "hatch_build__d__py": DESCRIBES,
            },
            "git describe in hatch_build.py",
            id="hatchling's metadata hook",
        ),
        pytest.param(
            {
                "pyproject__d__toml": backend("scikit_build_core.build", "scikit-build-core")
                + '[tool.scikit-build.metadata.version]\nprovider = "v"\nprovider-path = "tools"\n',
                "tools__s__v__d__py": DESCRIBES,
            },
            "git describe in tools/v.py",
            id="a provider of scikit-build-core",
        ),
        pytest.param(
            {"pyproject__d__toml": backend("some.backend", "some", "some-git-versioning")},
            "some-git-versioning",
            id="a requirement by its name",
        ),
        pytest.param(
            {"setup__d__py": "from setuptools import setup\nsetup(setup_requires=['pbr>=2'], pbr=True)\n"},
            "pbr",
            id="pbr in setup_requires",
        ),
    ],
)  # fmt: skip
def test_a_version_from_git_is_never_nothing_to_pin(
    tmp_path: Path, files: dict[str, str], tool: str
) -> None:
    found = project(tmp_path, **files)
    assert (found.tool, found.is_fixed) == (tool, False)
    assert found.advice


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {
                "pyproject__d__toml": SETUPTOOLS
                + '[tool.setuptools.dynamic]\nversion = {attr = "x.__version__"}\n',
                "x__d__py": '__version__ = "1.0"\nimport git\n',
            },
            id="a literal attr",
        ),
        pytest.param(
            {
                "pyproject__d__toml": MESON,
                "meson__d__build": "project('x', 'c', version: '1.0')\nrun_command('git', 'describe')\n",
            },
            id="a literal in meson.build",
        ),
        pytest.param(
            {
                "pyproject__d__toml": backend("setuptools.build_meta", "setuptools", "setuptools-scm")
                + '[tool.setuptools.dynamic]\nversion = {file = "V"}\n',
            },
            id="setuptools-scm for its list of files",
        ),
    ],
)  # fmt: skip
def test_a_version_that_stands_in_a_file_needs_no_pin(
    tmp_path: Path, files: dict[str, str]
) -> None:
    assert project(tmp_path, **files).is_fixed


def test_meson_that_runs_setuptools_scm_is_pinned_by_its_variable(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        pyproject__d__toml=MESON + "[tool.setuptools_scm]\n",
        meson__d__build="project('x', 'c',\n  version: run_command(py, '-m', 'setuptools_scm').stdout(),\n)\n",
    )
    assert found.exported_variables == ("SETUPTOOLS_SCM_PRETEND_VERSION",)


def test_flit_scm_reads_the_variable_without_a_name(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        pyproject__d__toml=backend("flit_scm:buildapi", "flit_scm") + "[tool.setuptools_scm]\n",
    )
    assert found.tool == "flit_scm"
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
