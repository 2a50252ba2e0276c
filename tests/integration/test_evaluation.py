# SPDX-License-Identifier: Apache-2.0
"""The documented form in which a shell evaluates the exports, in real shells, whatever becomes of ci-doctor."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.eval_forms import FISH, cases, deaths, goes_on, success
from benchmarks.eval_forms import FORMS as EVAL_FORMS
from ci_doctor.model.words import EVALUATION, FISH_EVALUATION
from tests.support.cli import ROOT, environment

pytestmark = pytest.mark.integration

FORMS = [
    *(pytest.param(shell, way, EVALUATION, id=f"{shell} {way}") for shell, way in cases()),
    *(pytest.param(*case, FISH_EVALUATION, id=" ".join(case)) for case in cases(fish=True)),
]


@pytest.mark.parametrize(("shell", "way", "form"), FORMS)
@pytest.mark.gate(4)
def test_a_shell_goes_on_with_the_exports_alone(
    shell: str, way: str, form: str, tmp_path: Path
) -> None:
    went_on = [
        name
        for name, death in deaths(tmp_path).items()
        if goes_on(shell, way, form, death, tmp_path)
    ]

    assert went_on == []
    assert goes_on(shell, way, f'{form}\n[ "$A" = 1 ] || exit', success(), tmp_path)


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", FISH])
@pytest.mark.parametrize("profile", ["default", "off"])
def test_the_real_exports_reach_the_shell(shell: str, profile: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    form = FISH_EVALUATION if shell == FISH else EVALUATION
    ended = in_shell(shell, with_profile(form, profile) + '\necho "$CI_DOCTOR_PREPARED"', tmp_path)

    # With nothing to export there is still something to evaluate.
    assert re.fullmatch(r"-:[0-9a-f]{12}\n", ended.stdout), ended


def test_a_job_without_a_python_project_gets_something_to_evaluate(tmp_path: Path) -> None:
    text = with_profile(EVALUATION, "off") + '\necho "$CI_DOCTOR_PREPARED"'
    ended = in_shell("sh", text, tmp_path, is_project=False)

    assert re.fullmatch(r"-:[0-9a-f]{12}\n", ended.stdout), ended


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", FISH])
@pytest.mark.gate(2)
def test_the_shell_ends_with_the_code_of_an_error(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    form = FISH_EVALUATION if shell == FISH else EVALUATION
    ended = in_shell(shell, with_profile(form, "nonsense") + "\necho went on", tmp_path)

    assert ended.stdout == "", ended
    assert ended.returncode == 2, ended


def test_a_fish_that_evaluates_an_error_by_other_forms_fails_too(tmp_path: Path) -> None:
    if shutil.which(FISH) is None:
        pytest.skip("no fish")
    text = (
        "ci-doctor setup-env --determinism nonsense --format fish | source; or echo failed $status"
    )
    assert in_shell(FISH, text, tmp_path).stdout == "failed 2\n"


@pytest.mark.parametrize("shell", ["bash", "dash", "zsh", FISH])
@pytest.mark.parametrize("noise", ["hooks loaded", "# hooks loaded", "C:\\"])
@pytest.mark.gate(4)
def test_no_export_is_lost_to_what_python_prints_before_ours(
    shell: str, noise: str, tmp_path: Path
) -> None:
    """As a sitecustomize does; its text may not even end in a newline."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    (tmp_path / "sitecustomize.py").write_text(f"print({noise!r}, end='')\n")
    form = FISH_EVALUATION if shell == FISH else EVALUATION
    text = with_profile(form, "default") + '\necho "$CUBLAS_WORKSPACE_CONFIG"'
    ended = in_shell(shell, text, tmp_path, is_project=False, PYTHONPATH=str(tmp_path))

    # In fish `set` keeps the status of what failed before it.
    if shell == FISH and not noise.startswith("#"):
        assert (ended.stdout, ended.returncode) == ("", 127), ended
    else:
        assert ended.stdout == ":4096:8\n", ended


def with_profile(form: str, profile: str) -> str:
    return form.replace("setup-env", f"setup-env --determinism {profile}")


def in_shell(
    shell: str, text: str, folder: Path, *, is_project: bool = True, **variables: str
) -> "subprocess.CompletedProcess[str]":
    if is_project:
        (folder / "pyproject.toml").write_text('[project]\nname = "pkg"\nversion = "1.0"\n')
    command = folder / "bin" / "ci-doctor"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ci_doctor "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:/usr/bin:/bin"
    return subprocess.run(
        [shell, "-c", text],
        cwd=folder,
        env=environment({"PATH": path, **variables}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    "path",
    ["README.md", "docs/setup-env.md", "buildkite_plugins/ci-doctor/README.md"],
)
def test_no_page_shows_a_form_that_goes_on(path: str) -> None:
    text = (ROOT / path).read_text()

    assert 'eval "$(ci-doctor' not in text
    # A page may break a line in two.
    assert text.count("ci-doctor setup-env)") == " ".join(text.split()).count(EVALUATION)


def test_the_form_that_was_documented_goes_on_after_every_early_death(tmp_path: Path) -> None:
    """So each of these deaths does prevent the exports: the other tests would prove nothing else."""
    old = EVAL_FORMS["documented first"]
    stopped = [
        name
        for name, death in deaths(tmp_path).items()
        if not goes_on("sh", "-e", old, death, tmp_path)
    ]

    # A quote that is never closed, and the statement that only our own code prints.
    assert stopped == ["killed half-way", "an error of ours"]
