# SPDX-License-Identifier: Apache-2.0
"""The example: each mistake that its README names is reported, and the mended repository is clean; the scripts this began with."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import ROOT, doctor

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
EXAMPLE = ROOT / "examples" / "lint"


def report_of(name: str, directory: Path) -> dict[str, Any]:
    shutil.copytree(EXAMPLE / name, directory / name)
    report: dict[str, Any] = json.loads(doctor("lint", "--json", cwd=directory / name).out)
    return report


def test_every_mistake_of_the_readme_is_reported(tmp_path: Path) -> None:
    named = re.findall(r"^\|.*\| (.*) \|$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    rules = set(re.findall(r"`([a-z]+/[a-z-]+)`", "\n".join(named)))

    report = report_of("before", tmp_path)

    assert report["verdict"] == "failed"
    assert {each["rule"] for each in report["findings"]} == rules


def test_the_mended_repository_is_clean(tmp_path: Path) -> None:
    report = report_of("after", tmp_path)

    assert (report["verdict"], report["findings"]) == ("pass", [])


def test_the_scripts_of_the_problems_this_began_with_are_reported(tmp_path: Path) -> None:
    scripts = tmp_path / "ci"
    shutil.copytree(ROOT / "tests" / "support" / "origin_problems", scripts)

    report = json.loads(doctor("lint", "--json", cwd=tmp_path).out)

    found = {
        (Path(each["evidence"][0]["file"]).stem, each["rule"].partition("/")[2])
        for each in report["findings"]
    }
    assert found >= {
        ("blind-wait", "wait-without-process"),
        ("restart-sleep", "wait-without-process"),
        ("retried-correctness", "wait-without-process"),
        ("retried-correctness", "count-defaults-to-zero"),
    }
