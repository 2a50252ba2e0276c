# SPDX-License-Identifier: Apache-2.0
"""Which backend computes the version of a project, from its files; what a setup.py says, without running it."""

import ast
from pathlib import Path

import pytest
from vcs_versioning import VcsEnvironment

from ci_doctor.environment.detection import BACKENDS, read_project
from ci_doctor.environment.project import (
    GENERIC,
    HATCH_VCS,
    SETUPTOOLS_SCM,
    Project,
    VersionSource,
    calls_of,
    constants,
    imported_modules,
    packages,
    read_setup_script,
    scm_table,
    suffix,
)
from ci_doctor.environment.tags import Described
from ci_doctor.errors import UsageError
from tests.support.cases import cases

SETUPTOOLS = '[build-system]\nrequires = ["setuptools", "setuptools-scm"]\nbuild-backend = "setuptools.build_meta"\n'
DYNAMIC = '[project]\nname = "My--Pkg..x"\ndynamic = ["version"]\n'


def project_of(directory: Path, **files: str) -> Project:
    for name, content in files.items():
        (directory / name.replace("__", ".")).write_text(content)
    return read_project(directory)


def test_a_table_for_setuptools_scm_asks_for_it(tmp_path: Path) -> None:
    project = project_of(tmp_path, pyproject__toml=f"{SETUPTOOLS}{DYNAMIC}[tool.setuptools_scm]\n")
    assert (project.source, project.name, project.reads_generic) == (
        SETUPTOOLS_SCM,
        "My--Pkg..x",
        False,
    )


def test_the_table_of_the_library_itself_does_too(tmp_path: Path) -> None:
    project = project_of(
        tmp_path,
        pyproject__toml=f"{SETUPTOOLS}{DYNAMIC}[tool.vcs-versioning]\nlocal_scheme = 'dirty-tag'\n",
    )
    assert project.source is SETUPTOOLS_SCM
    assert scm_table(project.pyproject) == {"local_scheme": "dirty-tag"}


TABLE = "[tool.setuptools_scm]\n"
SCIKIT = f'[build-system]\nbuild-backend = "scikit_build_core.build"\nrequires = ["scikit-build-core"]\n{DYNAMIC}{TABLE}'
PROVIDER = (
    '[tool.scikit-build.metadata.version]\nprovider = "scikit_build_core.metadata.setuptools_scm"\n'
)
IN_TREE = SETUPTOOLS.replace("setuptools.build_meta", "own_backend") + 'backend-path = ["."]\n'
VERSION_FILE = '[tool.setuptools.dynamic]\nversion = {file = "VERSION"}\n'


def requiring(requirement: str) -> str:
    return f'[build-system]\nrequires = ["setuptools", "{requirement}"]\n{DYNAMIC}'


@cases(
    ("toml", "is_scm"),
    {
        "scikit-build-core by its provider": (SCIKIT + PROVIDER, True),
        "scikit-build-core without it": (SCIKIT, False),
        "a backend in the tree is the one it wraps": (IN_TREE + DYNAMIC + TABLE, True),
        "setuptools' dynamic table is nothing where no version is dynamic": (
            SETUPTOOLS + TABLE + VERSION_FILE,
            True,
        ),
        "a requirement alone": (requiring("setuptools-scm"), False),
        "a requirement with its extra": (requiring("setuptools_scm [simple] >= 9.2"), True),
        "a requirement with another extra": (requiring("setuptools-scm[toml]>=8"), False),
    },
)
def test_the_table_or_the_requirement_counts_where_the_backend_reads_it(
    tmp_path: Path, toml: str, is_scm: bool
) -> None:
    project = project_of(tmp_path, pyproject__toml=toml)
    assert (project.source is SETUPTOOLS_SCM, project.is_fixed) == (is_scm, not is_scm)


def test_get_version_without_a_name_reads_only_the_generic_variable(tmp_path: Path) -> None:
    script = "from setuptools import setup\nfrom setuptools_scm import get_version\nsetup(version=get_version())\n"
    project = project_of(
        tmp_path, pyproject__toml=f"{SETUPTOOLS}{DYNAMIC}[tool.setuptools_scm]\n", setup__py=script
    )
    assert (project.name, project.reads_generic, project.reads_pyproject) == (
        "My--Pkg..x",
        True,
        False,
    )


@pytest.mark.parametrize(
    ("script", "cfg", "name", "generic"),
    [
        ("from setuptools_scm import get_version\nget_version(dist_name='other')\n", "", "other", False),
        ("from setuptools import setup\nsetup(use_scm_version=True, name='x')\n", "[metadata]\nname = cfg\n", "cfg", False),
        ("from setuptools import setup\nsetup(use_scm_version=True)\n", "", None, True),
    ],
)  # fmt: skip
def test_without_a_table_the_name_is_that_of_the_script_or_of_setup_cfg(
    tmp_path: Path, script: str, cfg: str, name: str | None, generic: bool
) -> None:
    project = project_of(tmp_path, setup__py=script, setup__cfg=cfg)
    expected = (name, SETUPTOOLS_SCM, generic)
    assert (project.name, project.source, project.reads_generic) == expected


def test_hatch_vcs_from_pyproject_and_from_its_own_file(tmp_path: Path) -> None:
    toml = f'[build-system]\nrequires = ["hatchling", "hatch-vcs"]\nbuild-backend = "hatchling.build"\n{DYNAMIC}'
    settings = 'source = "vcs"\ntag-pattern = "v(.*)"\nraw-options = {local_scheme = "dirty-tag"}\n'
    first = project_of(tmp_path, pyproject__toml=f"{toml}[tool.hatch.version]\n{settings}")
    assert first.options == {"local_scheme": "dirty-tag", "tag_regex": "v(.*)"}
    assert (first.source, first.reads_generic) == (HATCH_VCS, True)
    assert (
        project_of(tmp_path, pyproject__toml=toml, hatch__toml=f"[version]\n{settings}").options
        == first.options
    )


def test_pdm_backend(tmp_path: Path) -> None:
    toml = f'[build-system]\nbuild-backend = "pdm.backend"\nrequires = ["pdm-backend"]\n{DYNAMIC}[tool.pdm.version]\n'
    scm = project_of(tmp_path, pyproject__toml=f'{toml}source = "scm"\ntag_filter = "v*"')
    assert (scm.exported_variables, scm.is_fixed) == (("PDM_BUILD_SCM_VERSION",), False)
    assert project_of(tmp_path, pyproject__toml=f'{toml}source = "file"\npath = "x.py"').is_fixed
    called = project_of(tmp_path, pyproject__toml=f'{toml}source = "call"\ngetter = "x:y"')
    assert (called.source, called.is_fixed) == (None, False)


@pytest.mark.parametrize(
    ("files", "tool", "word"),
    [
        ({"pyproject__toml": '[build-system]\nrequires = ["poetry-core", "poetry-dynamic-versioning"]\nbuild-backend = "poetry_dynamic_versioning.backend"\n[tool.poetry]\nname = "x"\nversion = "0.0.0"\n[tool.poetry-dynamic-versioning]\nenable = true\n'}, "poetry-dynamic-versioning", "POETRY_DYNAMIC_VERSIONING_BYPASS"),
        ({"pyproject__toml": '[build-system]\nrequires = ["hatchling", "uv-dynamic-versioning"]\nbuild-backend = "hatchling.build"\n[tool.hatch.version]\nsource = "uv-dynamic-versioning"\n'}, "uv-dynamic-versioning", "UV_DYNAMIC_VERSIONING_BYPASS"),
        ({"pyproject__toml": '[build-system]\nrequires = ["setuptools", "versioningit"]\n[tool.versioningit]\n'}, "versioningit", "default-version"),
        ({"pyproject__toml": '[build-system]\nrequires = ["setuptools", "setuptools-git-versioning"]\n[tool.setuptools-git-versioning]\nenabled = true\n'}, "setuptools-git-versioning", "tag_filter"),
        ({"setup__py": "import versioneer\nfrom setuptools import setup\nsetup(version=versioneer.get_version())\n"}, "versioneer", "tag_prefix"),
        ({"pyproject__toml": '[build-system]\nrequires = ["setuptools", "pbr>=6"]\n', "setup__py": "import setuptools\nsetuptools.setup(pbr=True)\n"}, "pbr", "PBR_VERSION"),
        ({"setup__py": "from dunamai import Version\nfrom setuptools import setup\nsetup(version=Version.from_git().serialize())\n"}, "dunamai", "pattern"),
        ({"setup__py": "from setuptools import setup\nsetup(version=open('V').read())\n"}, "code in setup.py", "setuptools-scm"),
        ({"setup__py": "from setuptools import setup\nsetup(**make())\n"}, "code in setup.py", "setuptools-scm"),
        ({"setup__py": "from setuptools import setup\nsetup(**make())\n", "pyproject__toml": DYNAMIC}, "code in setup.py", "setuptools-scm"),
    ],
)  # fmt: skip
def test_other_tools_are_named_with_what_would_help(
    tmp_path: Path, files: dict[str, str], tool: str, word: str
) -> None:
    project = project_of(tmp_path, **files)
    assert project.tool == tool
    assert not project.is_fixed
    assert word in (project.advice or "")


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"pyproject__toml": '[project]\nname = "x"\nversion = "1.2"\n[tool.setuptools_scm]\n'}, "1.2"),
        ({"pyproject__toml": '[build-system]\nbuild-backend = "poetry.core.masonry.api"\nrequires = ["poetry-core"]\n[tool.poetry]\nversion = "1.2"\n'}, "1.2"),
        ({"setup__cfg": "[metadata]\nname = x\nversion = 1.2\n"}, "1.2"),
        ({"setup__py": "from setuptools import setup\nsetup(name='x', version='1.2')\n"}, "1.2"),
        ({"setup__cfg": "[metadata]\nname = x\nversion = attr: x.__version__\n"}, None),
        ({"setup__cfg": "[metadata]\nname = x\nversion = attr: x.__version__\n", "setup__py": "setup(**make())"}, None),
        ({"setup__cfg": "[metadata]\nname = x\n[options]\nuse_scm_version = True\n"}, None),
        ({"pyproject__toml": '[build-system]\nbuild-backend = "flit_core.buildapi"\nrequires = ["flit_core"]\n' + DYNAMIC}, None),
    ],
)  # fmt: skip
def test_a_version_that_stands_in_a_file_needs_no_pin(
    tmp_path: Path, files: dict[str, str], version: str | None
) -> None:
    project = project_of(tmp_path, **files)
    assert (project.is_fixed, project.version) == (True, version)


@pytest.mark.parametrize(
    "script",
    [
        "",
        "from setuptools import setup\nsetup(use_scm_version=True)\n",
        "from setuptools_scm import get_version\nsetup(version=get_version())\n",
    ],
)
def test_a_version_of_setuptools_own_dynamic_table_overwrites_that_of_setuptools_scm(
    tmp_path: Path, script: str
) -> None:
    toml = SETUPTOOLS + DYNAMIC + TABLE + VERSION_FILE
    assert project_of(tmp_path, pyproject__toml=toml, setup__py=script).is_fixed


def test_a_link_to_a_project_is_the_project(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "pyproject.toml").write_text(DYNAMIC)
    (tmp_path / "link").symlink_to("real")
    assert read_project(tmp_path / "link").directory == (tmp_path / "real").resolve()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("pyproject.toml", b"[project]\nname = \n", r"pyproject\.toml:2: not valid TOML"),
        ("pyproject.toml", b"\xff\xfe", "cannot read"),
        ("setup.py", b"x = 1\nprint 'x'\n", r"setup\.py:2: not valid Python"),
        ("setup.py", b"\x00", "not valid Python"),
        ("setup.cfg", b"name = x\n", r"setup\.cfg:1: not valid setup.cfg"),
    ],
)
def test_a_file_that_does_not_parse_is_named(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=says):
        read_project(tmp_path)


def test_a_directory_that_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no pyproject\.toml"):
        read_project(tmp_path)
    with pytest.raises(UsageError, match="no such project directory"):
        read_project(tmp_path / "missing")


@pytest.mark.parametrize(
    "content",
    [
        'project = 1\ntool = "x"\nbuild-system = []\n',
        "[tool]\nsetuptools_scm = 3\n[build-system]\nrequires = [1, {}]\n",
    ],
)
def test_tables_of_the_wrong_type_do_not_confuse(tmp_path: Path, content: str) -> None:
    assert isinstance(project_of(tmp_path, pyproject__toml=content), Project)


PDM_BACKEND = VersionSource(name="pdm-backend", variable="PDM_BUILD_SCM_VERSION")

SOURCES: tuple[VersionSource, ...] = (SETUPTOOLS_SCM, HATCH_VCS, PDM_BACKEND)


@pytest.mark.parametrize("package", BACKENDS)
def test_a_row_is_named_by_its_canonical_package(package: str) -> None:
    assert packages([package]) == {package}


@pytest.mark.parametrize("package", BACKENDS)
def test_a_project_without_a_version_source_is_fixed(package: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        f'[build-system]\nbuild-backend = "{package}"\n[project]\nname = "x"\ndynamic = ["version"]\n'
    )
    assert read_project(tmp_path).is_fixed


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
@pytest.mark.parametrize("generic", [True, False])
def test_what_is_exported_decides(source: VersionSource, generic: bool) -> None:
    project = Project(
        directory=Path("/p"), name="x", tool="t", source=source, reads_generic=generic
    )
    environ = dict.fromkeys(project.exported_variables, "1.0")
    assert project.deciding_variable({}) is None
    assert project.deciding_variable(environ) in environ


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_shared_variable_decides_for_every_project(source: VersionSource) -> None:
    project = Project(directory=Path("/p"), name="x", tool="t", source=source)
    for name in project.shared_variables:
        assert project.deciding_variable({name: "1.0"}) == name


def library_reads(name: str, environ: dict[str, str]) -> str | None:
    reader = VcsEnvironment.from_env("SETUPTOOLS_SCM", env=environ).make_reader(name)
    return reader.read("PRETEND_VERSION")


def project(name: str) -> Project:
    return Project(
        directory=Path(f"/p/{name}"), name=name, tool="setuptools-scm", source=SETUPTOOLS_SCM
    )


@pytest.mark.parametrize("name", ["lmcache", "My--Pkg..x", "a_b", "A.B-C"])
@pytest.mark.parametrize(
    "environ",
    [
        {},
        {GENERIC: "1"},
        {GENERIC: ""},
        {"VCS_VERSIONING_PRETEND_VERSION": "2", GENERIC: "1"},
        {"VCS_VERSIONING_PRETEND_VERSION_FOR_{}": "3", GENERIC: "1"},
        {GENERIC + "_FOR_{}": "", GENERIC: "1"},
        {GENERIC + "_FOR_{}": "4", "VCS_VERSIONING_PRETEND_VERSION_FOR_{}": "3"},
    ],
)
def test_the_deciding_variable_is_the_librarys(name: str, environ: dict[str, str]) -> None:
    environ = {key.format(suffix(name)): value for key, value in environ.items()}
    deciding = project(name).deciding_variable(environ)
    assert (environ[deciding] if deciding else None) == (library_reads(name, environ) or None)


@pytest.mark.parametrize("spelling", ["My__Pkg.x", "my-pkg-x", "MY_PKG_X"])
def test_misspelt_suffixes_count_as_the_library_counts_them(spelling: str) -> None:
    environ = {f"{GENERIC}_FOR_{spelling}": "5"}
    assert library_reads("My--Pkg..x", environ) == "5"
    assert project("My--Pkg..x").deciding_variable(environ) == f"{GENERIC}_FOR_{spelling}"


def test_a_suffix_of_another_name_does_not_count() -> None:
    assert project("lmcache").deciding_variable({f"{GENERIC}_FOR_LM_CACHE": "5"}) is None


def test_the_commit_is_kept_beside_each_pinned_variable() -> None:
    unscoped = Project(
        directory=Path(), name="my-pkg", tool="x", source=SETUPTOOLS_SCM, reads_generic=True
    )
    described = Described(version="1.0", node="gabc", distance=3, dirty=True)
    value = '{node = "gabc", distance = 3, dirty = true}'
    assert unscoped.commit_variables(described) == {
        "SETUPTOOLS_SCM_PRETEND_METADATA": value,
        "SETUPTOOLS_SCM_PRETEND_METADATA_FOR_MY_PKG": value,
    }
    assert unscoped.commit_variables(Described(version="1.0")) == {}


VLLM_LIKE = """
from setuptools import setup
from setuptools_scm import get_version
def get_vllm_version() -> str:
    return f"{get_version(write_to='vllm/_version.py')}+cu128"
setup(version=get_vllm_version(), ext_modules=[])
"""


def test_a_call_inside_a_function_is_found_and_where_it_writes_does_not_matter() -> None:
    script = read_setup_script(VLLM_LIKE, "/p/setup.py")
    (call,) = script.get_version_calls
    assert call.values == {}
    assert call.unreadable == ()
    assert script.computes_version
    assert script.version is None


@pytest.mark.parametrize(
    "line",
    [
        "from setuptools_scm import get_version as gv; gv(local_scheme='x')",
        "import setuptools_scm; setuptools_scm.get_version(local_scheme='x')",
        "import setuptools_scm as s\nif 1:\n    v = s.get_version(local_scheme='x')",
        "from setuptools_scm import get_version\nSCHEME = 'x'\nget_version(local_scheme=SCHEME)",
    ],
)
def test_every_spelling_of_the_call_is_found(line: str) -> None:
    (call,) = read_setup_script(line, "/p/setup.py").get_version_calls
    assert call.values == {"local_scheme": "x"}


def test_a_function_of_the_same_name_is_not_setuptools_scm() -> None:
    assert (
        read_setup_script("def get_version(): ...\nget_version()", "/p/setup.py").get_version_calls
        == ()
    )


@pytest.mark.parametrize(
    ("value", "values", "unreadable"),
    [
        ("True", {}, ()),
        (
            "{'root': '..', 'relative_to': __file__}",
            {"root": "..", "relative_to": "/p/setup.py"},
            (),
        ),
        ("dict(root='..')", {"root": ".."}, ()),
        ("OPTIONS", {"root": ".."}, ()),
        ("{'version_scheme': lambda v: '1', 'root': '.'}", {"root": "."}, ("version_scheme",)),
        ("{'write_to': pathlib.Path('x') / 'y'}", {}, ()),
        ("{'root': Path(__file__).resolve().parent}", {"root": "/p"}, ()),
        ("make_options", {}, ("*",)),
        ("{**OPTIONS}", {}, ("*",)),
    ],
)
def test_the_keyword_of_setup(
    value: str, values: dict[str, str], unreadable: tuple[str, ...]
) -> None:
    script = read_setup_script(
        f"OPTIONS = {{'root': '..'}}\nsetup(name='x', use_scm_version={value})", "/p/setup.py"
    )
    assert script.use_scm_version is not None
    assert script.use_scm_version.values == values
    assert script.use_scm_version.unreadable == unreadable
    assert script.name == "x"


@pytest.mark.parametrize(
    "call",
    ["from setuptools import setup as s; s(name='x')", "import setuptools as s; s.setup(name='x')"],
)
def test_every_spelling_of_setup_is_found(call: str) -> None:
    assert read_setup_script(call, "/p/setup.py").name == "x"


@pytest.mark.parametrize(
    "call",
    [
        "setup(**{'name': 'x', 'use_scm_version': True})",
        "setup(**KEYWORDS)",
        "setup(name='x', **MORE)",
    ],
)
def test_keywords_that_are_spread_from_a_dict_are_read(call: str) -> None:
    constants = (
        "KEYWORDS = dict(name='x', use_scm_version=True)\nMORE = {'use_scm_version': True}\n"
    )
    script = read_setup_script(constants + call, "/p/setup.py")
    assert (script.name, script.has_unreadable_keywords) == ("x", False)
    assert script.use_scm_version is not None


@pytest.mark.parametrize(
    "call", ["setup(**make())", "setup(name='x', **{**make()})", "setup(name='x', **{key: 1})"]
)
def test_keywords_that_only_running_it_can_tell_are_said(call: str) -> None:
    assert read_setup_script(call, "/p/setup.py").has_unreadable_keywords


def test_a_keyword_that_is_false_asks_for_nothing() -> None:
    assert read_setup_script("setup(use_scm_version=False)", "/p/setup.py").use_scm_version is None


def test_a_name_that_refers_to_itself_ends() -> None:
    assert read_setup_script("a = b\nb = a\nsetup(name=a)", "/p/setup.py").name is None


def test_what_is_not_python_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        read_setup_script("print 'old'", "/p/setup.py")


SCRIPT = ast.parse(
    """
import os.path, setuptools_scm as scm
from setuptools_scm import get_version as version
from . import local
ONE = 1
TWICE = 1
TWICE = 2
def run():
    import late
    scm.get_version(root="..")
    version()
    other.get_version()
"""
)


def test_only_a_name_that_is_bound_once_is_certain() -> None:
    assert list(constants(SCRIPT)) == ["ONE"]


def test_imports_count_wherever_they_stand() -> None:
    assert set(imported_modules(SCRIPT)) == {"os", "setuptools_scm", "late"}


def test_calls_count_under_every_imported_name_and_no_other() -> None:
    calls = calls_of(SCRIPT, {"setuptools_scm"}, "get_version")
    assert [ast.unparse(call) for call in calls] == ["scm.get_version(root='..')", "version()"]
