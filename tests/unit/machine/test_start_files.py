# SPDX-License-Identifier: Apache-2.0
"""Reading what a start did, and which files an import would take."""

import json
from pathlib import Path

from ci_doctor.machine.start_files import read_start


def test_the_time_of_files_that_start_other_files_is_not_counted_twice(tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer.pth", tmp_path / "inner\nfile.pth"
    for file in (outer, inner):
        file.write_text("import sys\n")
    text = f"""ci-doctor: begin {str(outer)!a}
ci-doctor: begin {str(inner)!a}
a word
ci-doctor: end a word of the file
ci-doctor: end 400
ci-doctor: end 1000
ci-doctor: begin {str(outer)!a}
ci-doctor: end 50
"""

    start = read_start(json.dumps({"path": [], "ran": {}}), text)

    assert start is not None
    assert [(each.path, each.cost_us, each.stderr) for each in start.files] == [
        (str(outer), 650, ()),
        (str(inner), 400, ("a word",)),
    ]


def test_a_sitecustomize_that_hid_itself_is_the_first_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("")
    # Refused by the kernel for root, too.
    path = [str(tmp_path / ("x" * 300)), str(tmp_path)]
    text = "ci-doctor: begin 'sitecustomize'\nci-doctor: end 7\n"

    start = read_start(json.dumps({"path": path, "ran": {"sitecustomize": None}}), text)

    assert start is not None
    assert [each.path for each in start.files] == [str(tmp_path / "sitecustomize.py")]


def test_a_path_that_is_no_utf8_is_read() -> None:
    report = {"path": ["/srv/caf\udce9"], "ran": {}}

    start = read_start(json.dumps(report), "")

    assert start is not None
    assert start.path == ("/srv/caf\udce9",)
