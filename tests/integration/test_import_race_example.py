# SPDX-License-Identifier: Apache-2.0
"""The example of an import race ends as its README says."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.cli import Ran, doctor

pytestmark = [pytest.mark.integration, pytest.mark.nightly]

EXAMPLE = Path(__file__).parents[2] / "examples" / "import-race"
WORDS = ("import-race", "--confirm", "--", sys.executable, "-m", "serving.cli")


def run(*before: str) -> Ran:
    return doctor(*before, *WORDS, cwd=EXAMPLE)


def test_the_race_is_found_and_the_rule_that_the_report_gives_cures_it() -> None:
    found = run()
    assert (found.code, found.out) == (1, "serving with GenerationConfig\n"), found
    (rule,) = set(re.findall(r"--preload\s+(\S+)", found.err))
    assert rule == "serving.cli=lazy_models:GenerationConfig", found

    cured = run("run", "--preload", rule, "--", sys.executable, "-m", "ci_doctor")
    assert (cured.code, cured.out) == (0, "serving with GenerationConfig\n"), cured


def test_the_readme_has_the_rule_and_the_commands_that_were_run_here() -> None:
    readme = (EXAMPLE / "README.md").read_text()
    lines = readme.split("```sh\n")[1].split("```")[0].replace("\\\n", "").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    assert commands[1] == [
        "ci-doctor",
        "import-race",
        "--confirm",
        "--",
        "python",
        "-m",
        "serving.cli",
    ]
    rule = "serving.cli=lazy_models:GenerationConfig"
    assert commands[2][:4] == ["ci-doctor", "run", "--preload", rule]
