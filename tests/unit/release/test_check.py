# SPDX-License-Identifier: Apache-2.0
"""Reasons against a release, and the pins of dependencies."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.check import home_problems, page_problems, program_problems, version_problems

ROOT = Path(__file__).parents[3]
PYPROJECT = """
[project.urls]
Homepage = "{home}"
[tool.ci-doctor-readme]
files = "https://git.somewhere.org/blob/{{revision}}/"
"""


def test_a_home_that_is_reserved_is_a_reason() -> None:
    (reason,) = home_problems(PYPROJECT.format(home="https://ci-doctor.example/"))

    assert "[project.urls] Homepage is the reserved https://ci-doctor.example/" in reason
    assert list(home_problems(PYPROJECT.format(home="https://ci-doctor.somewhere.org/"))) == []


def test_this_project_is_refused_until_it_has_a_home() -> None:
    reasons = "\n".join(home_problems((ROOT / "pyproject.toml").read_text()))

    for table, name in (
        ("project.urls", "Homepage"),
        ("project.urls", "Source"),
        ("tool.ci-doctor-readme", "images"),
    ):
        assert f"[{table}] {name} is the reserved" in reasons


def test_the_reserved_home_stands_in_no_code_of_ours() -> None:
    # Other places would keep it when pyproject.toml has another one.
    code = [*(ROOT / "ci_doctor").rglob("*.py"), ROOT / "setup.py", ROOT / "README.md"]

    assert [path for path in code if "ci-doctor.example" in path.read_text()] == []


@pytest.mark.parametrize(
    ("version", "tag", "reasons"),
    [
        pytest.param("1.2.3", "v1.2.3", 0, id="release"),
        pytest.param("1.2.3rc1", "v1.2.3rc1", 1, id="no-section"),
        pytest.param("1.2.3", "v1.2.3-1-gabc", 1, id="commits-after-the-tag"),
        pytest.param("1.2.3", "v1.2.3-dirty", 1, id="dirty"),
        pytest.param("0.1.0.dev1+gabc", "abc", 3, id="no-tag"),
    ],
)
def test_the_version_is_that_of_the_tag_and_has_its_section(
    version: str, tag: str, reasons: int
) -> None:
    changelog = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3]\n"

    assert len(list(version_problems(version, tag, changelog))) == reasons


def test_links_of_the_page_are_addresses_of_files_that_are_there() -> None:
    files = "https://ci-doctor.example/blob/v1.2.3/"
    page = f"[a]({files}docs/a.md#part) [b]({files}docs/b.md) [c](docs/c.md) [d](#d) [e](https://e.org)"

    assert list(page_problems(page, {"docs/a.md"})) == [
        "the page of the index links to docs/b.md, which is not in the repository",
        "the page of the index has the relative link docs/c.md",
    ]


def test_a_program_that_is_missing_or_fails_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "twine").write_text("#!/bin/sh\necho bad $4; exit 1\n")
    (tmp_path / "twine").chmod(0o755)
    (tmp_path / "check-wheel-contents").symlink_to("/bin/true")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    failed, missing = program_problems(Path("s.tar.gz"), Path("w.whl"))

    assert failed == "twine ended with 1:\nbad s.tar.gz"
    assert missing.startswith("validate-pyproject is not installed beside")


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# Extras of development.
OWN = {"all", "dev", "docs", "example"}
# CI has no GPU, and does not install it.
UNTRIED = {"nvidia-ml-py"}


def direct() -> Iterator[Requirement]:
    """What users install, directly."""
    lines = list(PROJECT["dependencies"])
    for name in EXTRAS.keys() - OWN:
        lines += EXTRAS[name]
    for line in lines:
        requirement = Requirement(line)
        if requirement.name != PROJECT["name"]:
            yield requirement


def pins() -> dict[str, str]:
    lines = (ROOT / "install" / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return dict(pairs)


def test_constraints_pin_each_dependency_within_its_bounds() -> None:
    pinned = pins()
    for requirement in direct():
        name = canonicalize_name(requirement.name)
        if name not in UNTRIED:
            assert requirement.specifier.contains(pinned[name]), f"{requirement}: {pinned[name]}"


def test_constraints_are_exact_and_sorted_by_name() -> None:
    names = list(pins())

    assert names == [canonicalize_name(name) for name in names]
    assert names == sorted(set(names), key=lambda name: f"{name}==")


def test_the_extra_all_has_every_extra_for_users() -> None:
    (requirement,) = (Requirement(line) for line in EXTRAS["all"])

    assert requirement.extras == EXTRAS.keys() - OWN


def test_each_dependency_has_its_reason_beside_it() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    names = {each.name for each in direct()}
    explained = {name for name in names for line in lines if re.search(rf'"{name}[>\[].*#', line)}

    assert names - explained == set()
