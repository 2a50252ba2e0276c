# SPDX-License-Identifier: Apache-2.0
"""Which interpreters a request means."""

from pathlib import Path

import pytest

from ci_doctor.errors import UsageError
from ci_doctor.preload.interpreters import Interpreters, find_interpreters
from ci_doctor.preload.result import Refused


def python_in(directory: Path) -> Path:
    python = directory / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return python


def test_a_missing_one_does_not_hide_the_others(tmp_path: Path) -> None:
    python = python_in(tmp_path / "v")
    named = Interpreters(pythons=("no-such-python",), venvs=(str(tmp_path / "v"),))
    missing, present = find_interpreters(named, {"PATH": str(tmp_path)})
    assert isinstance(missing, Refused)
    assert missing.python == Path("no-such-python")
    assert present == python


def test_without_names_the_jobs_own_environment_counts(tmp_path: Path) -> None:
    python = python_in(tmp_path / "project" / ".venv")
    named = Interpreters(projects=(str(tmp_path / "project"),))
    assert find_interpreters(named, {"PATH": str(tmp_path)}) == [python]


def test_no_interpreter_at_all_is_an_error(tmp_path: Path) -> None:
    named = Interpreters(projects=(str(tmp_path),))
    with pytest.raises(UsageError, match="no interpreter found"):
        find_interpreters(named, {"PATH": str(tmp_path)})
