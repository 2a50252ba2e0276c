# SPDX-License-Identifier: Apache-2.0
"""Console scripts in the forms of several installers."""

from pathlib import Path

import pytest

from ci_doctor.checks.entry_points.console_script import ConsoleScript, read_console_script

MAIN = "from served.cli.main import main"
GUARD = 'if __name__ == "__main__":\n    sys.exit(main())\n'
PYTHON = "/opt/venv/bin/python3.12"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"#!{PYTHON}\nimport re\nimport sys\n{MAIN}\n{GUARD}", id="pip"),
        pytest.param(f"#!{PYTHON}\n# -*- coding: utf-8 -*-\nimport sys\n{MAIN}\n{GUARD}", id="uv"),
        pytest.param(
            f"#!/bin/sh\n'''exec' '{PYTHON}' \"$0\" \"$@\"\n' '''\nimport sys\n{MAIN}\n{GUARD}",
            id="a path that the kernel would not take",
        ),
        pytest.param(f"#!{PYTHON} -E\nimport sys\n{MAIN}\n{GUARD}", id="with an option"),
    ],
)
def test_the_interpreter_and_the_import_are_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "serve").write_text(text)

    expected = ConsoleScript(python=Path(PYTHON), module="served.cli.main", attribute="main")
    assert read_console_script(tmp_path / "serve") == expected


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(f"#!{PYTHON}\n{MAIN}\nmain()\n".encode(), id="runs when it is imported"),
        pytest.param(f"#!/bin/sh\n{MAIN}\n{GUARD}".encode(), id="another program's script"),
        pytest.param(b"\x7fELF\x02\x01\x01\x00", id="a binary"),
        pytest.param(b"", id="empty"),
    ],
)
def test_anything_else_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "serve").write_bytes(content)

    assert read_console_script(tmp_path / "serve") is None


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_console_script(tmp_path / "absent") is None
