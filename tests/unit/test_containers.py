"""The container recipes: what holds for every image, read from their files."""

import subprocess
from pathlib import Path

import pytest

from tests.support.run_lines import script, stages

FOLDER = Path(__file__).parents[2] / "examples" / "containers"
RECIPES = sorted(FOLDER.glob("*.Dockerfile"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_the_last_stage_has_what_the_first_installed_and_a_user_that_is_not_root(
    recipe: Path,
) -> None:
    first, last = stages(recipe.read_text())

    assert first[0] == ("FROM", "${BASE} AS installed")
    copies = [rest for name, rest in last if name == "COPY"]
    assert copies == ["--from=installed /opt/ci-doctor /opt/ci-doctor"]
    (user,) = (rest for name, rest in last if name == "USER")
    identity, _, group = user.partition(":")
    assert int(identity) > 0
    assert int(group) > 0
    assert [name for name, _ in last].index("USER") > max(
        index for index, (name, _) in enumerate(last) if name == "RUN"
    )


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_only_checked_files_of_the_wheelhouse_are_installed(recipe: Path) -> None:
    (line,) = (
        rest for each in stages(recipe.read_text()) for _, rest in each if "pip install" in rest
    )

    assert "--no-index" in line
    assert line.index("sha256sum --check") < line.index("pip install")


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_a_shell_reads_the_commands(recipe: Path) -> None:
    for each in stages(recipe.read_text()):
        text = script(each)
        ran = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, ""), text


def test_each_recipe_is_in_the_readme() -> None:
    assert len(RECIPES) == 2
    page = (FOLDER / "README.md").read_text()
    assert [path.name for path in RECIPES if f"({path.name})" not in page] == []
