# SPDX-License-Identifier: Apache-2.0

import platform
import sys
from pathlib import Path

import pytest

from ci_doctor.drift.reading import read_interpreter, snapshot_targets
from ci_doctor.drift.snapshot import InterpreterSnapshot
from ci_doctor.errors import UsageError
from tests.support.packages import write_script
from tests.support.wheels import add_package, make_venv


def read(python: Path, cwd: Path, environ: dict[str, str] | None = None) -> InterpreterSnapshot:
    return read_interpreter(python, environ or {}, cwd, str, contents=False).snapshot


def test_an_interpreter_has_its_version_and_its_packages(tmp_path: Path) -> None:
    add_package(make_venv(tmp_path), "x", "1.0")

    interpreter = read(tmp_path / "bin" / "python", tmp_path)

    assert interpreter.version == f"cpython {platform.python_version()}"
    assert {name: each.version for name, each in interpreter.packages.items()} == {"x": "1.0"}
    assert interpreter.unknown == {}


def test_a_venv_whose_python_is_gone_still_has_packages(tmp_path: Path) -> None:
    add_package(make_venv(tmp_path), "x", "1.0")
    (tmp_path / "bin" / "python").unlink()
    (tmp_path / "bin" / "python").symlink_to(tmp_path / "gone")

    interpreter = read(tmp_path / "bin" / "python", tmp_path)

    assert interpreter.version is None
    assert "cannot be started: No such file" in interpreter.unknown["version"]
    assert list(interpreter.packages) == ["x"]


def test_a_python_that_does_not_start_says_why(tmp_path: Path) -> None:
    make_venv(tmp_path)
    python = write_script(tmp_path / "bin" / "python", "echo no shared library >&2\nexit 127")

    interpreter = read(python, tmp_path)

    assert interpreter.unknown["version"] == f"{python} cannot be started: no shared library"


def test_a_script_under_the_name_of_a_python_stands_for_the_one_it_starts(tmp_path: Path) -> None:
    add_package(make_venv(tmp_path / "venv"), "x", "1.0")
    python = tmp_path / "venv" / "bin" / "python"
    text = f'echo "cannot lock the shims" >&2\nexec {python} "$@"'
    script = write_script(tmp_path / "python3", text)

    interpreter = read(script, tmp_path)

    assert interpreter.version == f"cpython {platform.python_version()}"
    assert list(interpreter.packages) == ["x"]


def test_what_is_no_interpreter_or_a_link_to_itself_has_no_packages_and_a_reason(
    tmp_path: Path,
) -> None:
    (tmp_path / "python").symlink_to(tmp_path / "python")

    for name in ("none", "python"):
        assert {*read(tmp_path / name, tmp_path).unknown} == {"packages", "version"}


def test_what_each_start_runs_has_a_hash(tmp_path: Path) -> None:
    site = make_venv(tmp_path)
    (site / "a.pth").write_text("import sys\n")
    (site / "__editable__.x.pth").write_text("/somewhere\n")
    (site / "sitecustomize.py").write_text("import os\n")
    python = tmp_path / "bin" / "python"
    before = read(python, tmp_path).start_files
    (site / "sitecustomize.py").write_text("import re\n")
    after = read(python, tmp_path).start_files

    assert list(before) == ["a.pth", "sitecustomize.py"]
    assert before["a.pth"] == after["a.pth"]
    assert before["sitecustomize.py"] != after["sitecustomize.py"]


def test_a_path_of_packages_from_the_environment_counts(tmp_path: Path) -> None:
    add_package(tmp_path, "x", "1.0")

    interpreter = read(Path(sys.executable), tmp_path, {"PYTHONPATH": str(tmp_path)})

    assert interpreter.packages["x"].version == "1.0"


def broken_venv(directory: Path) -> Path:
    make_venv(directory)
    (directory / "bin" / "python").unlink()
    return directory


def test_a_broken_environment_of_the_job_is_not_left_out(tmp_path: Path) -> None:
    active = broken_venv(tmp_path / "active")
    broken_venv(tmp_path / ".venv")

    assert snapshot_targets([], [], tmp_path, {}) == (tmp_path / ".venv/bin/python",)
    assert snapshot_targets([], [], tmp_path, {"VIRTUAL_ENV": str(active)}) == (
        active / "bin/python",
    )


def test_what_never_was_an_environment_is_refused_and_without_any_there_is_no_target(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError):
        snapshot_targets([], [str(tmp_path / "none")], tmp_path, {})
    assert snapshot_targets([], [], tmp_path, {"PATH": str(tmp_path)}) == ()
