# SPDX-License-Identifier: Apache-2.0
"""What all recipes have in common: pipelines and workflows that their systems take, and that lint has nothing against."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.cli import ROOT, doctor

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
RECIPES = ROOT / "examples" / "recipes"
YAML = sorted(RECIPES.glob("*/*.yml"))


def schema_of(path: Path) -> str:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return "vendor.buildkite" if "steps" in content else "vendor.github-workflows"


@pytest.mark.parametrize("schema", ["vendor.buildkite", "vendor.github-workflows"])
def test_pipelines_and_workflows_are_valid(schema: str) -> None:
    files = [path for path in YAML if schema_of(path) == schema]
    program = Path(sys.executable).parent / "check-jsonschema"

    ran = subprocess.run(
        [program, "--builtin-schema", schema, *files], capture_output=True, check=False
    )

    assert ran.returncode == 0, ran.stdout.decode()


def test_lint_has_nothing_to_say(tmp_path: Path) -> None:
    """A workflow is read as one where GitHub looks for it."""
    recipes = Path(shutil.copytree(RECIPES, tmp_path / "recipes"))
    for path in sorted(recipes.glob("*/*.yml")):
        if schema_of(path) == "vendor.github-workflows":
            place = path.parent / ".github" / "workflows" / path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            path.rename(place)

    ran = doctor("lint", ".", cwd=recipes)

    assert ran.code == 0, ran
    assert "nothing to report" in ran.out, ran
