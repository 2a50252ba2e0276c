# SPDX-License-Identifier: Apache-2.0
"""The private parts of vcs-versioning that scm_library uses: a test fails here before a user's job does.

If one fails after an update, read the library's changes, adapt scm_library.py, and raise the upper
bound of vcs-versioning in pyproject.toml.
"""

import importlib
import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from vcs_versioning import Configuration

ROOT = Path(__file__).parents[3]

SIGNATURES = [
    ("_scm_version", "tag_to_version", ["tag", "config"]),
    ("_scm_version", "_parse_version_tag", ["tag", "config"]),
    ("_backends._git", "make_describe_command", ["match"]),
    ("_backends._git", "GitWorkdir.run_git", ["self", "args", "check", "timeout"]),
    ("_backends._git", "GitWorkdir.get_scm_version", ["self"]),
    ("_backends._scm_workdir", "ScmWorkdir.get_scm_version", ["self"]),
]


@pytest.mark.parametrize(("module", "name", "parameters"), SIGNATURES)
def test_a_private_part_has_the_name_and_the_parameters_we_use(
    module: str, name: str, parameters: list[str]
) -> None:
    part = importlib.import_module(f"vcs_versioning.{module}")
    for attribute in name.split("."):
        part = getattr(part, attribute)
    assert callable(part)
    assert list(inspect.signature(part).parameters) == parameters


def test_the_configuration_has_the_fields_we_set(tmp_path: Path) -> None:
    git = importlib.import_module("vcs_versioning._backends._git")
    config = Configuration(root=str(tmp_path))
    assert config.scm.git.describe_command is None
    assert isinstance(config.scm.git.pre_parse, git.GitPreParse)
    assert git.GitPreParse.WARN_ON_SHALLOW in git.GitPreParse
    assert isinstance(config.tag.regex, re.Pattern)
    assert config.tag.describe_match_glob() == "*[0-9]*"
    assert config.tag.strict in {None, False, True}


def test_the_parsed_tag_holds_its_version(tmp_path: Path) -> None:
    scm_version = importlib.import_module("vcs_versioning._scm_version")
    parsed = scm_version._parse_version_tag("v1.2", Configuration(root=str(tmp_path)))
    assert parsed["version"] in {"1.2", "v1.2"}


def test_the_library_is_bounded_below_the_first_release_that_was_not_read() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (requirement,) = (
        parsed
        for parsed in map(Requirement, project["dependencies"])
        if parsed.name == "vcs-versioning"
    )
    assert any(each.operator == "<" for each in requirement.specifier)
    assert requirement.specifier.contains(version("vcs-versioning"))
