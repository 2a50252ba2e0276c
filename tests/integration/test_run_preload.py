# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor run --preload RULE -- CMD`: CMD and what it starts preload, and nothing is installed."""

import sys
from pathlib import Path

import pytest

from tests.integration.preload_venvs import PACKAGES, Venv, each_interpreter, venv_of
from tests.integration.test_preload_neighbours import CHAINING, WRAPPING_FINDER
from tests.support.cli import Ran, doctor

pytestmark = pytest.mark.integration

RULE = "fakeserve.cli=fakeformers:GenerationConfig"
SPAWN = """
import multiprocessing, sys

def child():
    import fakeserve.cli

if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        process = multiprocessing.get_context(method).Process(target=child)
        process.start()
        process.join()
        print(method, process.exitcode)
"""


@pytest.fixture(scope="module", params=each_interpreter())
def venv(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    made = venv_of(request.param, tmp_path_factory.mktemp("venv"))
    made.put(PACKAGES)
    (made.directory / "spawn.py").write_text(SPAWN)
    (made.directory / "pyproject.toml").write_text('[project]\nname = "pkg"\nversion = "1.0"\n')
    return made


def run(venv: Venv, *arguments: str, rule: str = RULE, **variables: str) -> Ran:
    return doctor(
        "run",
        "--preload",
        rule,
        "--",
        str(venv.python),
        *arguments,
        cwd=venv.directory,
        env={**variables},
    )


def test_the_race_is_lost_without_and_won_with_it_and_nothing_is_written(venv: Venv) -> None:
    assert "cannot import name 'GenerationConfig'" in venv.run("-m", "fakeserve").stderr
    before = venv.files()
    ran = run(venv, "-m", "fakeserve")
    assert (ran.code, ran.out) == (0, "served GenerationConfig\n"), ran
    assert {name for name in venv.files() if not name.endswith((".pyc", "__pycache__"))} == {
        name for name in before if not name.endswith((".pyc", "__pycache__"))
    }


def test_children_preload_too(venv: Venv) -> None:
    assert run(venv, "spawn.py").out.splitlines() == ["spawn 0", "forkserver 0", "fork 0"]


def test_it_leaves_no_trace_on_the_path_and_runs_the_sitecustomize_behind_it(
    venv: Venv, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.theirs = __file__")
    program = "import sys, sitecustomize; print(theirs == sitecustomize.__file__); print([p for p in sys.path if 'ci_doctor' in p])"
    ran = run(venv, "-c", program, PYTHONPATH=str(tmp_path))
    assert ran.out.splitlines() == ["True", "[]"], ran


def test_a_launcher_that_wraps_the_loaders_and_runs_the_next_sitecustomize_keeps_it(
    venv: Venv, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WRAPPING_FINDER + CHAINING)  # as ddtrace-run does
    launcher = f'PYTHONPATH={tmp_path}:$PYTHONPATH exec "$0" -m fakeserve'
    ran = doctor(
        "run", "--preload", RULE, "--", "sh", "-c", launcher, str(venv.python), cwd=venv.directory
    )
    assert (ran.code, ran.out) == (0, "served GenerationConfig\n"), ran


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("raise RuntimeError('theirs')", "RuntimeError: theirs"),
        ("import not_there_at_all", "No module named 'not_there_at_all'"),
    ],
)
@pytest.mark.gate(2)
def test_a_sitecustomize_that_fails_is_told_as_without_us(
    venv: Venv, tmp_path: Path, text: str, error: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(text)
    ran = run(venv, "-c", "import fakeserve.cli", PYTHONPATH=str(tmp_path))
    assert ran.code == 0
    assert error in ran.err


def test_a_python_that_ignores_the_environment_is_named(venv: Venv) -> None:
    ran = run(venv, "-I", "-c", "import sys; print('_ci_doctor_preload' in sys.modules)")
    assert ran.out == "False\n"
    assert "preload/not-reached" in ran.err


@pytest.mark.gate(1)
def test_the_switches_of_the_shim_hold_here_too(venv: Venv) -> None:
    ran = run(venv, "-m", "fakeserve", CI_DOCTOR_PRELOAD_TRACE="1")
    assert "fakeserve.cli: preloaded fakeformers (GenerationConfig)" in ran.err
    assert run(venv, "-m", "fakeserve", CI_DOCTOR_PRELOAD="0").code == 1


def test_a_preset_is_a_rule_without_a_project_and_a_mistyped_one_gets_a_suggestion(
    tmp_path: Path,
) -> None:
    command = (sys.executable, "-c", "import os; print(os.environ['CI_DOCTOR_PRELOAD_RULES'])")
    ran = doctor("run", "--preload", "vllm", "--", *command, cwd=tmp_path)
    assert ran.out == "vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig\n"
    mistyped = doctor("run", "--preload", "vlm", "--", *command, cwd=tmp_path)
    assert (mistyped.code, "vllm" in mistyped.err) == (2, True)
