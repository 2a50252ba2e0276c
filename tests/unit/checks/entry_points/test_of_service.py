# SPDX-License-Identifier: Apache-2.0
"""What a configured service imports at its start."""

import os
import sys
from pathlib import Path

import pytest

from ci_doctor.checks.entry_points.entry_point import EntryCommand
from ci_doctor.checks.entry_points.of_service import NoProgram, entry_point_of_service
from ci_doctor.services.spec import ServiceSpec

SCRIPT = f"#!{sys.executable}\nimport sys\nfrom served.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory for PATH with the console script `served`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "served").write_text(SCRIPT)
    (folder / "served").chmod(0o755)
    return folder


def entry(
    command: str | list[str], programs: Path, **keys: object
) -> EntryCommand | NoProgram | str:
    spec = ServiceSpec(command=command, **keys)  # type: ignore[arg-type]
    environ = {"PATH": f"{programs}:{os.defpath}"}
    return entry_point_of_service("web", spec, environ, programs.parent)


def test_a_console_script_is_imported_and_not_run(programs: Path) -> None:
    made = entry("served model --port {port}", programs, env={"MODE": "fast"})

    assert isinstance(made, EntryCommand)
    assert (made.name, made.module, made.env) == ("service web", "served.cli", {"MODE": "fast"})
    assert made.words[0] == sys.executable
    assert made.words[3:] == ("served.cli", "main", "script")


def test_a_path_is_relative_to_the_directory_of_the_service(programs: Path) -> None:
    made = entry("./served --port {port}", programs, cwd="bin")

    assert isinstance(made, EntryCommand)
    assert made.module == "served.cli"


def test_a_module_that_python_runs_is_imported_where_the_service_runs(programs: Path) -> None:
    made = entry(
        [sys.executable, "-u", "-m", "served.web", "--port", "{port}"], programs, cwd="bin"
    )

    assert isinstance(made, EntryCommand)
    assert (made.module, made.cwd) == ("served.web", programs)


def test_a_program_that_is_not_there_is_said_so(programs: Path) -> None:
    assert entry("absent --port {port}", programs) == NoProgram(service="web", program="absent")


@pytest.mark.parametrize("command", ["sh -c 'served'", [sys.executable, "server.py", "-m", "x"]])
def test_what_is_no_console_script_is_left_alone(command: str | list[str], programs: Path) -> None:
    made = entry(command, programs)

    assert isinstance(made, str)
    assert made.endswith("is no console script of a Python package")
