# SPDX-License-Identifier: Apache-2.0
"""The command line and the environment of a run of pytest."""

import json
from pathlib import Path

from ci_doctor.pytest_runs.attempt import RunKind
from ci_doctor.pytest_runs.plan import FOLDER, PLUGIN, PytestPlan, rerun_args, with_options


def plan(kind: RunKind = RunKind.SUITE, **environ: str) -> PytestPlan:
    return PytestPlan(
        kind=kind,
        python=Path("/py"),
        args=("-n4", "tests"),
        environ=environ,
        directory=Path("/"),
        hash_seed=5,
    )


def test_the_recorder_comes_in_by_pythonpath_and_an_option() -> None:
    environment = plan(PYTHONPATH="/own:").environment("/record", "/plan")

    assert environment["PYTHONPATH"] == f"{FOLDER}:/own:"
    assert plan().command == ("/py", "-m", "pytest", "-p", PLUGIN, "-n4", "tests")
    assert [file.name for file in FOLDER.glob("*.py")].count(f"{PLUGIN}.py") == 1


def test_a_hash_seed_of_the_user_stays() -> None:
    plans = (plan(), plan(PYTHONHASHSEED="0"))

    seeds = [each.environment("r", "p")["PYTHONHASHSEED"] for each in plans]

    assert seeds == ["5", "0"]


def test_only_reruns_change_the_options_of_pytest() -> None:
    assert [
        json.loads(plan(kind).wishes("c", "s"))["is_rerun"]
        for kind in (RunKind.SUITE, RunKind.ALONE)
    ] == [False, True]


def test_a_rerun_has_one_process_and_leaves_the_coverage_alone() -> None:
    assert rerun_args(("-n4", "--", "-odd.py"), ("pytest-xdist", "pytest_cov")) == (
        "-n4",
        "-n0",
        "--no-cov",
        "--",
        "-odd.py",
    )
    assert with_options(("a",), "-q") == ("a", "-q")
