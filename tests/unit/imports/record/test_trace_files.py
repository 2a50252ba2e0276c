# SPDX-License-Identifier: Apache-2.0
"""The traces in a folder."""

from pathlib import Path

from ci_doctor.imports.record.trace_files import read_traces
from tests.unit.imports.traces import MS, Trace


def test_processes_come_in_the_order_of_their_starts(tmp_path: Path) -> None:
    (tmp_path / "1.trace").write_text(Trace(pid=1, started_ns=9 * MS).text())
    (tmp_path / "2.trace").write_text(Trace(pid=2, started_ns=5 * MS).text())

    processes, unreadable = read_traces(tmp_path)

    assert ([process.pid for process in processes], unreadable) == ([2, 1], ())


def test_a_damaged_trace_is_named_and_one_without_a_whole_line_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "damaged.trace").write_text("garbage\n")
    (tmp_path / "early.trace").write_text("('process', 12")

    processes, (reason,) = read_traces(tmp_path)

    assert processes == ()
    assert reason.startswith("damaged.trace: line 1 of an import trace is not a record")
