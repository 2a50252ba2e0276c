# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.drift.targets import snapshot_targets
from ci_doctor.errors import UsageError
from tests.support.wheels import make_venv


def broken_venv(directory: Path) -> Path:
    make_venv(directory)
    (directory / "bin" / "python").unlink()
    return directory


def test_named_environments_are_the_targets_broken_ones_too(tmp_path: Path) -> None:
    make_venv(tmp_path / "whole")
    broken_venv(tmp_path / "broken")
    names = [str(tmp_path / "whole"), str(tmp_path / "broken")]

    targets = snapshot_targets([], names, tmp_path, {})

    assert {*targets} == {tmp_path / "whole/bin/python", tmp_path / "broken/bin/python"}


def test_a_broken_environment_of_the_job_is_not_left_out(tmp_path: Path) -> None:
    active = broken_venv(tmp_path / "active")
    broken_venv(tmp_path / ".venv")

    assert snapshot_targets([], [], tmp_path, {}) == (tmp_path / ".venv/bin/python",)
    assert snapshot_targets([], [], tmp_path, {"VIRTUAL_ENV": str(active)}) == (
        active / "bin/python",
    )


def test_what_never_was_an_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        snapshot_targets([], [str(tmp_path / "none")], tmp_path, {})


def test_without_any_interpreter_there_is_no_target(tmp_path: Path) -> None:
    assert snapshot_targets([], [], tmp_path, {"PATH": str(tmp_path)}) == ()
