# SPDX-License-Identifier: Apache-2.0
"""Each recipe's README: its commands, typed as they stand, end and print as it says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.cli import ROOT, Ran, doctor, environment

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
RECIPES = ROOT / "examples" / "recipes"
# The commands of a README end with these codes, in their order. A variant that must fail has its own.
CODES = {
    "lmcache-vs-vllm": [0, 86, 1],
    "blended-kv": [0, 1, 1],
    "disaggregated-prefill": [0, 1, 1],
    "multi-node": [0, 1, 1],
    "sglang": [0, 7, 86],
}


class Command(NamedTuple):
    """Lines to type, and the lines that the last of them prints."""

    lines: str
    printed: tuple[str, ...]


def commands_of(readme: str) -> list[Command]:
    blocks = re.findall(r"```sh\n(.*?)```\s*```text\n(.*?)```", readme, re.DOTALL)
    return [Command(lines, tuple(printed.splitlines())) for lines, printed in blocks]


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    """The recipes in a place of their own; what they share is linked."""
    pytest.importorskip("numpy")
    place = tmp_path / "examples" / "recipes"
    place.mkdir(parents=True)
    (place.parent / "tiny-llm").symlink_to(RECIPES.parent / "tiny-llm")
    for each in RECIPES.iterdir():
        if each.name in CODES:
            shutil.copytree(each, place / each.name, ignore=shutil.ignore_patterns("venvs"))
        else:
            (place / each.name).symlink_to(each)
    return place


def typed(lines: str, folder: Path) -> Ran:
    """What a shell makes of the lines, in a recipe's folder."""
    changes = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "CI_DOCTOR_REPORT_DIR": str(folder / "reports"),
    }
    ran = subprocess.run(
        ["sh", "-ec", lines],
        cwd=folder,
        env=environment(changes),
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr, ("sh", "-ec", lines), folder)


def missing(printed: tuple[str, ...], ran: Ran) -> list[str]:
    """The lines of a README that a run has not printed; `…` stands for anything within a line."""
    output = [" ".join(line.split()) for line in (ran.out + ran.err).splitlines()]
    text = "\n".join(output)
    lost = []
    for line in printed:
        parts = [re.escape(" ".join(part.split())) for part in line.split("…")]
        if not re.search(".*".join(parts), text):
            lost.append(line)
    return lost


@pytest.mark.parametrize("recipe", CODES)
def test_every_command_ends_and_prints_as_the_readme_says(recipe: str, recipes: Path) -> None:
    commands = commands_of((RECIPES / recipe / "README.md").read_text(encoding="utf-8"))

    rans = [typed(each.lines, recipes / recipe) for each in commands]

    assert [ran.code for ran in rans] == CODES[recipe], rans
    for command, ran in zip(commands, rans, strict=True):
        assert missing(command.printed, ran) == [], ran


def test_the_scripts_and_steps_of_the_recipes_are_clean() -> None:
    ran = doctor("lint", "examples/recipes", cwd=ROOT)

    assert ran.code == 0, ran


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_has_nothing_to_say_about_the_scripts() -> None:
    scripts = [*RECIPES.glob("*/*.sh"), *(RECIPES / "stand-ins" / "bin").iterdir()]

    ran = subprocess.run(
        ["shellcheck", *map(str, scripts)], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stdout) == (0, "")


def test_the_index_has_every_recipe() -> None:
    index = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")

    folders = {each.parent.name for each in RECIPES.glob("*/ci-doctor.toml")}

    assert folders >= set(CODES)
    assert {
        folder for folder in folders if f"examples/recipes/{folder}/README.md" not in index
    } == set()


def test_a_stand_in_refuses_a_flag_that_the_recipes_do_not_use(recipes: Path) -> None:
    ran = typed("sh stand-ins/run.sh vllm serve model --no-such-flag", recipes)

    assert ran.code == 2, ran
    assert "unrecognized arguments: --no-such-flag" in ran.err
