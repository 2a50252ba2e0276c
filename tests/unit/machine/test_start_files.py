# SPDX-License-Identifier: Apache-2.0
"""Reading what a start did, and which files an import would take."""

import json
from pathlib import Path

from ci_doctor.machine.start_files import (
    Imported,
    candidates,
    read_blocks,
    read_importtime,
    read_start,
)

IMPORTS = """
import time: self [us] | cumulative | imported package
import time:       100 |        100 |     selectors
import time:      9000 |       9100 |   asyncio.base
import time:       400 |       9500 | asyncio
noise import time: nothing
import time:     -2000 |        300 | a_child
import time:      1200 |       1200 | json
import time:       300 |      11000 | sitecustomize
"""


def imported(name: str, own: int, cumulative: int, depth: int) -> Imported:
    return Imported(name=name, self_us=own, cumulative_us=cumulative, depth=depth)


def test_importtime_is_read_among_other_lines() -> None:
    read = read_importtime(IMPORTS)

    assert [each.name for each in read] == [
        "selectors",
        "asyncio.base",
        "asyncio",
        "a_child",
        "json",
        "sitecustomize",
    ]
    assert read[0] == imported("selectors", 100, 100, 2)
    assert read[3].self_us == -2000


def test_costs_of_files_that_start_other_files_are_not_counted_twice() -> None:
    text = """ci-doctor: begin /s/outer.pth
import time:        10 |         10 | first
ci-doctor: begin /t/inner file.pth
import time:        20 |         20 | second
ci-doctor: end /t/inner file.pth 400
ci-doctor: end /s/outer.pth 1000
ci-doctor: begin /s/outer.pth
ci-doctor: end /s/outer.pth 50
"""

    outer, inner = read_blocks(text)

    assert (outer.name, outer.cost_us, [each.name for each in outer.imports]) == (
        "/s/outer.pth",
        650,
        ["first"],
    )
    assert (inner.name, inner.cost_us, [each.name for each in inner.imports]) == (
        "/t/inner file.pth",
        400,
        ["second"],
    )


def test_import_takes_the_first_and_a_linked_directory_counts_once(tmp_path: Path) -> None:
    for name in ("lib", "site", "none"):
        (tmp_path / name).mkdir()
    (tmp_path / "lib64").symlink_to(tmp_path / "lib")
    (tmp_path / "lib" / "sitecustomize.py").touch()
    (tmp_path / "site" / "sitecustomize").mkdir()
    (tmp_path / "site" / "sitecustomize" / "__init__.py").touch()
    (tmp_path / "site" / "sitecustomize.py").touch()
    path = [str(tmp_path / name) for name in ("none", "lib", "lib64", "site")]

    assert candidates("sitecustomize", path) == (
        str(tmp_path / "lib" / "sitecustomize.py"),
        str(tmp_path / "site" / "sitecustomize" / "__init__.py"),
    )


def test_a_directory_that_cannot_be_looked_into_has_no_file(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("")
    # Refused by the kernel for root, too.
    refused = tmp_path / ("x" * 300)

    found = candidates("sitecustomize", [str(refused), str(tmp_path)])

    assert found == (str(tmp_path / "sitecustomize.py"),)


def test_a_path_that_is_no_utf8_is_read() -> None:
    report = {"path": ["/srv/caf\udce9"], "ran": {}, "user_site": False, "user_dir": None}

    start = read_start(json.dumps(report), "")

    assert start is not None
    assert start.path == ("/srv/caf\udce9",)
