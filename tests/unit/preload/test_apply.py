# SPDX-License-Identifier: Apache-2.0
"""Undoing changes to a site directory."""

from pathlib import Path

from ci_doctor.preload.apply import put_back, remember
from ci_doctor.preload.shim_files import FILES, PATH_FILE
from ci_doctor.preload.target import Target


def test_putting_back_restores_also_what_no_action_was_about(tmp_path: Path) -> None:
    target = Target(
        python=Path("/venv/bin/python"),
        version=(3, 12, 0),
        site_dir=tmp_path,
        externally_managed=False,
        writable=True,
    )
    for name in FILES:
        (tmp_path / name).write_text(name)
    changed = (tmp_path / PATH_FILE).stat().st_mtime_ns

    put_back(remember((), target))

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        name: name for name in FILES
    }
    assert (tmp_path / PATH_FILE).stat().st_mtime_ns == changed
