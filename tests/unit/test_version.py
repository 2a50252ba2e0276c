# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

from packaging.version import Version

from ci_doctor.version import tool_version
from tests.support.cli import python_program

ROOT = Path(__file__).parents[2]


def test_it_is_a_version() -> None:
    assert str(Version(tool_version()))


def test_another_project_of_our_commands_name_is_not_asked_for_its_version(tmp_path: Path) -> None:
    for name, version in (("ci-doctor", "9.9"), ("ci-doctor-toolkit", "1.2.3")):
        directory = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        directory.mkdir()
        (directory / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    program = (
        "import sys; sys.modules['ci_doctor._version'] = None\n"
        "from ci_doctor.version import tool_version; print(tool_version())"
    )

    ran = python_program(
        program, env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}, cwd=tmp_path
    )

    assert ran.stdout.strip() == "1.2.3"
