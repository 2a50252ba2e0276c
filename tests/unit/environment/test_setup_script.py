# SPDX-License-Identifier: Apache-2.0
"""What a setup.py says, without running it."""

import ast

import pytest

from ci_doctor.environment.project import (
    calls_of,
    constants,
    imported_modules,
    read_setup_script,
)

VLLM_LIKE = """
import os
from setuptools import setup
from setuptools_scm import get_version
from torch.utils.cpp_extension import CUDA_HOME

def get_vllm_version() -> str:
    version = get_version(write_to="vllm/_version.py")
    sep = "+" if "+" not in version else "."
    return f"{version}{sep}cu128"

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
