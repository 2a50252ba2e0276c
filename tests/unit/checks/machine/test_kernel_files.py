# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from ci_doctor.checks.machine.kernel_files import number_of, numbers_of, text_of
from ci_doctor.system.processes.memory_events import limit_of
from tests.support.machine_trees import UNLIMITED_V1, write_tree


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert text_of(tmp_path / "missing") is None
    assert number_of(tmp_path) is None
    assert numbers_of(tmp_path / "missing") == {}


def test_no_limit_has_two_forms(tmp_path: Path) -> None:
    write_tree(tmp_path, {"v2": "max\n", "v1": f"{UNLIMITED_V1}\n", "some": "4096\n"})

    assert [limit_of(tmp_path / name) for name in ("v2", "v1", "some")] == [None, None, 4096]


def test_numbers_come_with_colons_and_units_or_without(tmp_path: Path) -> None:
    text = "MemTotal:  16 kB\noom_kill 3\nHugePages:\n\nname word\n"
    write_tree(tmp_path, {"file": text})

    assert numbers_of(tmp_path / "file") == {"MemTotal": 16, "oom_kill": 3}
