# SPDX-License-Identifier: Apache-2.0
"""The name of the distribution: ours everywhere, and never that of another project."""

import re
import tomllib
from pathlib import Path

from ci_doctor.version import DISTRIBUTION, install_extra
from tests.support.tracked_files import tracked_files

ROOT = Path(__file__).parents[3]
# `pip install x ci-doctor`, `uvx ci-doctor`, `ci-doctor[gpu]`, `ci-doctor==1`, a project's page.
NAME = r"[\"'`]?ci[-_.]doctor(?![-_.\w])"
FOREIGN = re.compile(
    rf"(?:pip3?|pipx|uv|conda|poetry|pdm)\s+(?:tool\s+|pip\s+)?(?:install|add|run|download)\s(?!--spec ci-doctor-toolkit\s)[^|&;#`\n]*?"
    rf"(?<![-/_.\w]){NAME}(?!/|\S*\.git)"
    rf"|uvx\s+(?:--from\s+)?{NAME}"
    rf"|(?<![-/_.\w]){NAME}\[[a-z]"
    rf"|(?<![-/_.\w])ci-doctor\s*(?:[=~!<>]=)\s*\d"
    rf"|pypi\.org/(?:project|simple)/ci-doctor(?![-\w])",
    re.IGNORECASE,
)


def tracked() -> list[Path]:
    return [ROOT / name for name in tracked_files()]


def leads_elsewhere(text: str) -> list[str]:
    return [match[0] for match in FOREIGN.finditer(text)]


def test_nothing_in_the_tree_leads_to_the_other_project() -> None:
    found = {}
    for path in tracked():
        if path == Path(__file__) or not path.is_file():
            continue
        hits = leads_elsewhere(path.read_text("utf-8", "replace"))
        if hits:
            found[str(path.relative_to(ROOT))] = hits

    assert found == {}


def test_the_name_stands_in_one_place_and_in_the_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION
    assert list(project["scripts"]) == ["ci-doctor"]

    modules = [path for path in tracked() if path.is_relative_to(ROOT / "ci_doctor")]
    with_name = [
        path.name for path in modules if DISTRIBUTION in path.read_text("utf-8", "replace")
    ]
    assert with_name == ["version.py"]


def test_an_extra_is_installed_by_our_name() -> None:
    assert install_extra("gpu") == "pip install 'ci-doctor-toolkit[gpu]'"
