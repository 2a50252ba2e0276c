"""The command that makes a trial again."""

import json
import shlex
from collections.abc import Sequence

import pytest

from ci_doctor.pytest_runs.explaining import PLUGIN, PLUGIN_FOLDER, options_for_tests, shell_command
from ci_doctor.pytest_runs.trial import FlakyTrial


def test_an_order_needs_nothing_of_ours() -> None:
    trial = FlakyTrial(target="a.py::t[x y]", before=("a.py::p",), hash_seed=0)

    line = shell_command(trial, "python")

    assert line == "PYTHONHASHSEED=0 python -m pytest -p no:randomly a.py::p 'a.py::t[x y]'"


def test_an_earlier_run_is_a_command_of_its_own() -> None:
    trial = FlakyTrial(target="a.py::t", earlier=("a.py::t",), zone="UTC")

    command = "TZ=UTC python -m pytest -p no:randomly a.py::t"
    assert shell_command(trial, "python") == f"{command}; {command}"


def test_a_condition_of_the_plugin_brings_the_plugin() -> None:
    trial = FlakyTrial(target="a.py::t", seed=3, hash_seed=1)

    words = shlex.split(shell_command(trial, "python", ["-m", "not slow"]))

    assert words[:2] == ["PYTHONHASHSEED=1", f"PYTHONPATH={PLUGIN_FOLDER}"]
    assert json.loads(words[2].removeprefix("CI_DOCTOR_TRIAL=")) == {
        "seed": 3,
        "tests": ["a.py::t"],
    }
    assert words[3:] == ["python", "-m", "pytest", "-p", PLUGIN, "-m", "not slow", "a.py"]


def test_options_of_a_suite_and_its_paths_are_left_out() -> None:
    words = shlex.split(
        "-p my -n 2 --dist=loadfile tests/a.py -x --junitxml r.xml --cov=src -m 'not slow' -n0"
    )

    kept = options_for_tests(words, lambda word: word.startswith("tests/"))

    assert kept == ("-p", "my", "-m", "not slow", "-n0")


def test_a_value_with_the_name_of_a_file_stays_with_its_option() -> None:
    words = shlex.split("-c tox.ini -k gpu -m tests --rootdir . --ignore tests/old tests gpu")
    files = {"tox.ini", "gpu", "tests", ".", "tests/old"}

    kept = options_for_tests(words, files.__contains__)

    assert kept == ("-c", "tox.ini", "-k", "gpu", "-m", "tests", "--rootdir", ".", "--ignore", "tests/old")  # fmt: skip


def test_a_value_that_looks_like_an_option_of_a_suite_stays() -> None:
    assert options_for_tests(["-k", "-n", "-q"], lambda _: False) == ("-k", "-n", "-q")


def test_an_option_of_a_suite_without_a_value_takes_no_other_option_away() -> None:
    assert options_for_tests(["--cov", "-k", "x", "--stepwise"], lambda _: False) == ("-k", "x")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-q", "-p", "randomly", "--randomly-seed=2", "-k", "a"),
        ("-prandomly", "-q", "--randomly-seed", "2", "-k", "a"),
        ("-q", "--random-order", "--random-order-bucket", "global", "-k", "a"),
        ("--random-order-seed=3", "-q", "--randomly-dont-reset-seed", "-k", "a"),
    ],
)
def test_a_command_in_a_given_order_has_no_option_that_shuffles(arguments: Sequence[str]) -> None:
    trial = FlakyTrial(target="a.py::t")

    command = "python -m pytest -p no:randomly -q -k a a.py::t"
    assert shell_command(trial, "python", arguments) == command
