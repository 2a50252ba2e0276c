# SPDX-License-Identifier: Apache-2.0
"""The recipes: a dry run takes each configuration, no checker has anything to say, and the index has each."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from tests.support.cli import ROOT, doctor, environment
from tests.support.postgres import NEEDS_POSTGRES

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
RECIPES = ROOT / "examples" / "recipes"
YAML = sorted(RECIPES.glob("*/*.yml"))
OF_SERVERS = ["disaggregated-prefill", "lmcache-vs-vllm", "multi-node", "sglang"]


@pytest.mark.parametrize(
    ("folder", "words", "count"),
    [
        *((f"recipes/{recipe}", (), 6) for recipe in OF_SERVERS),
        ("vllm", ("--config", "prefix.toml"), 24),
        ("vllm", ("--config", "connector.toml"), 24),
    ],
)
def test_a_dry_run_takes_the_servers_and_the_requests_of_a_recipe(
    folder: str, words: tuple[str, ...], count: int, tmp_path: Path
) -> None:
    """No machine of ours has vLLM or SGLang: a dry run looks for the programs and starts none."""
    for program in ("vllm", "python"):
        path = tmp_path / program
        path.write_text("#!/bin/sh\nexit 1\n")
        path.chmod(0o755)

    ran = doctor(
        "correctness",
        "--dry-run",
        *words,
        cwd=RECIPES.parent / folder,
        env=environment({"PATH": f"{tmp_path}:/usr/bin:/bin"}),
    )

    assert ran.code == 0, ran
    assert f"would send {count} requests to up to 16 starts" in ran.out + ran.err


@pytest.mark.parametrize(
    ("recipe", "moment", "change", "bad"),
    [
        ("redis", "saving", None, set()),
        ("redis", "under-load", ("--appendonly yes", "--appendonly no"), {"under-load SIGKILL"}),
        pytest.param("postgresql", "saving", None, set(), marks=NEEDS_POSTGRES),
        pytest.param("postgresql", "before-ready", None, set(), marks=NEEDS_POSTGRES),
    ],
)
def test_a_database_keeps_what_it_has_acknowledged_as_its_recipe_says(
    recipe: str, moment: str, change: tuple[str, str] | None, bad: set[str]
) -> None:
    if recipe == "redis" and shutil.which("redis-server") is None:
        pytest.skip("needs Redis: apt-get install redis-server")
    # The database is another user's, if we are root: that one must reach the folder.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = shutil.copytree(RECIPES / recipe, Path(place) / recipe)
        if change is not None:
            config = folder / "ci-doctor.toml"
            # And no save but the one of an orderly stop.
            config.write_text(
                config.read_text().replace(*change).replace("--save 1 1", "--save 600 1")
            )

        ran = doctor(
            *("restart-check", "--moment", moment, "--signal", "SIGKILL", "--signal", "SIGINT"),
            cwd=folder,
            timeout=600,
        )

        report = json.loads((folder / "ci-doctor-report/report.json").read_text())
    cells = report["facts"]["cells"]
    verdicts = {f"{each['moment']} {each['signal']}": each["verdict"] for each in cells}
    expected = {}
    for name in (f"{moment} SIGKILL", f"{moment} SIGINT"):
        expected[name] = "failed" if name in bad else "pass"
    assert verdicts == expected, ran
    assert ran.code == (1 if bad else 0)


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


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_has_nothing_to_say_about_the_scripts() -> None:
    ran = subprocess.run(
        ["shellcheck", *map(str, RECIPES.glob("*/*.sh"))],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stdout) == (0, "")


def test_the_index_has_every_recipe() -> None:
    index = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")

    folders = {each.parent.name for each in RECIPES.glob("*/README.md")}

    assert folders > set(OF_SERVERS)
    assert [each for each in folders if f"examples/recipes/{each}/README.md" not in index] == []
