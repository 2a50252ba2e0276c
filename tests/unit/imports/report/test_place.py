# SPDX-License-Identifier: Apache-2.0
"""Where an import can stand in a script."""

from pathlib import Path

import pytest

from ci_doctor.imports.report.place import place_for_import

THREAD = "threading.Thread(target=work).start()\n"
TOP = "at the top of {}"
AFTER = "right after line {}, which extends sys.path"


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("import threading\n", TOP),
        ("import sys\nsys.path.insert(0, 'lib')\n", AFTER.format(2)),
        ("import sys\nsys.path += ['lib']\n", AFTER.format(2)),
        ("import sys\nsys.path[:0] = [\n    'lib',\n]\n", AFTER.format(4)),
        ("import sys\nif True:\n    sys.path.append('lib')\n", AFTER.format(3)),
        ("import site\nsite.addsitedir('lib')\n", AFTER.format(2)),
        ("import sys\nsys.path.append('a')\nimport os\nsys.path.append('b')\n", AFTER.format(4)),
        ('"""Doc."""\nfrom __future__ import annotations\n', "right after line 2, the import from"),
        ("import sys\ndef f():\n    sys.path.append('a')\n", TOP),
        ("print(sys.path)\n", TOP),
    ],
)
def test_it_stands_after_the_line_that_makes_its_module_importable(
    lines: str, place: str, tmp_path: Path
) -> None:
    script = tmp_path / "app.py"
    script.write_text(lines + THREAD + "sys.path.append('too late')\n")

    told = place_for_import(str(script), len(lines.splitlines()) + 1)

    assert place.format(script) in told


def test_a_script_that_cannot_be_read_gets_the_usual_place(tmp_path: Path) -> None:
    assert place_for_import("nowhere.py", 5) == "at the top of nowhere.py"
    broken = tmp_path / "broken.py"
    broken.write_text("def (\n")
    assert place_for_import(str(broken), 5) == f"at the top of {broken}"
