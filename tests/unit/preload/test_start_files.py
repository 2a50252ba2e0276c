# SPDX-License-Identifier: Apache-2.0
"""Reading what a start did, which files an import would take, and `status` as a library."""

import json
import venv
from pathlib import Path

from ci_doctor.model.facts.preload import StatusFacts
from ci_doctor.model.outcome import ErrorKind
from ci_doctor.preload.interpreter import Interpreters
from ci_doctor.preload.start_files import (
    Imported,
    candidates,
    heavy_imports,
    read_blocks,
    read_importtime,
    read_start,
)
from ci_doctor.preload.status import status

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


def test_heavy_imports_are_the_direct_ones_with_all_that_they_bring() -> None:
    below = [
        imported("asyncio", 400, 9500, 1),
        imported("json", 1200, 1200, 1),
        imported("enum", 90, 90, 1),
    ]

    assert heavy_imports([*below, imported("sitecustomize", 300, 11000, 0)], "sitecustomize") == {
        "asyncio": 9500,
        "json": 1200,
    }


def test_package_behind_a_wrapper_is_named_too() -> None:
    imports = [imported("torch._c", 300_000, 300_000, 2), imported("torch", 200_000, 500_000, 1)]

    heavy = heavy_imports([*imports, imported("agent", 200, 500_200, 0)], "/venv/agent.pth")

    assert heavy == {"agent": 500_200, "torch": 500_000}


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


def test_an_environment_without_a_shim_is_not_judged(tmp_path: Path) -> None:
    venv.create(tmp_path / "v", symlinks=True)
    outcome = status(Interpreters(venvs=(str(tmp_path / "v"),)), environ={})
    assert (outcome.verdict, outcome.error) == (None, None)
    assert outcome.summary == "a shim is installed in 0 of 1 interpreters"
    assert isinstance(outcome.facts, StatusFacts)
    (shim,) = outcome.facts.shims
    assert (shim.state, shim.installed, shim.rules) == ("asked", False, ())
    assert set(shim.files.values()) == {"absent"}
    assert shim.start_up is not None
    assert any(row.label == "no rule" for row in outcome.tables[0].rows)


def test_an_interpreter_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    outcome = status(Interpreters(venvs=(str(tmp_path / "gone"),)), environ={})
    assert outcome.error is not None
    assert outcome.error.kind is ErrorKind.USAGE
    assert isinstance(outcome.facts, StatusFacts)
    assert [shim.state for shim in outcome.facts.shims] == ["refused"]
