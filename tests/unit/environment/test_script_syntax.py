# SPDX-License-Identifier: Apache-2.0
import ast

from ci_doctor.environment.script_syntax import calls_of, constants, imported_modules

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
