# SPDX-License-Identifier: Apache-2.0
"""Traces: what is read from a line, and from the files of a run."""

from pathlib import Path

import pytest

from ci_doctor.errors import InfraError
from ci_doctor.imports.trace import Ask, Deadlock, End, Missing, Order, read_trace, read_traces
from ci_doctor.model.facts.import_race import Escape, Site
from tests.unit.imports.traces import MS, Trace


def test_all_kinds_of_records_are_read() -> None:
    trace = Trace(pid=7)
    trace.background("app.core")
    trace.load(1, "a", "x", replaced=True)
    trace.event("wait", 0, "a", 1, 5 * MS, "replaced")
    trace.event("deadlock", 0, "a", None, ("b", "c"), True)
    trace.event("missing", 0, "a", "x", "app.py", 10, "__main__")
    trace.lines.append(repr(("absent", "a", "y")))
    trace.lines.append(repr(("unjudged", "greenlets")))
    trace.event("held", 0, "a", 2 * MS, True)
    trace.lines.append(repr(("escape", trace.now, 0, ("python", "-I"), "-I")))
    process = trace.process()
    assert (process.pid, process.version, process.argv, process.truncated) == (
        7,
        "3.11.7",
        ("py", "app.py"),
        False,
    )
    assert process.threads[1].started_at == Site(file="app.py", line=5, module="app.core")
    assert process.threads[0].started_at is None
    assert [type(event).__name__ for event in process.events] == [
        "Ask",
        "Begin",
        "End",
        "Wait",
        "Deadlock",
        "Missing",
        "HeldImport",
    ]
    deadlock, missing = process.events[4:6]
    assert isinstance(deadlock, Deadlock)
    assert deadlock.raised is True
    assert isinstance(missing, Missing)
    assert missing.site == Site(file="app.py", line=10, module="__main__")
    assert process.absent == {("a", "y")}
    assert process.unjudged == ("greenlets",)
    ask, end = process.events[0], process.events[2]
    assert isinstance(ask, Ask)
    assert (ask.names, ask.how, ask.within) == (("x",), "statement", None)
    assert isinstance(end, End)
    assert end.replaced is True
    assert process.orders == (Order(n=1, k=1, clock={0: 0}),)
    assert process.escapes == (Escape(argv=("python", "-I"), why="-I"),)
    assert process.exited_ns == trace.now + MS


def test_odd_names_are_read_as_they_were_written() -> None:
    names = ("Thread-1 (None)", 'it\'s "so"', "back\\slash", "True, (x,)", "\u00e9\n")
    trace = Trace()
    for n, name in enumerate(names, start=1):
        trace.lines.append(ascii(("thread", trace.now, n, name, 0, "a(b).py", 1, "m")))
    assert tuple(trace.process().threads[n].name for n in range(1, 6)) == names
    assert trace.process().threads[1].started_at == Site(file="a(b).py", line=1, module="m")


def test_a_last_line_that_is_cut_off_is_dropped_and_told() -> None:
    trace = Trace()
    trace.load(0, "a")
    whole = trace.text(exited=False)
    process = read_trace(whole + "('ask', 1, 2")
    assert process is not None
    assert process.truncated
    assert len(process.events) == 3
    assert process.exited_ns is None


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "",
        "('ask', 1)",
        "('strange', 1)",
        "('end', 1, 0, 1, 'a', 'exploded', False)",
        "('begin', '1', 0, 1, 'a', None)",
        "()",
        "12",
        "__import__('os').getcwd()",
    ],
)
def test_a_line_in_the_middle_that_is_no_record_is_an_error_with_its_number(line: str) -> None:
    trace = Trace()
    trace.lines.append(line)
    with pytest.raises(InfraError, match="line 3 of an import trace is not a record"):
        read_trace(trace.text())


def test_processes_come_in_the_order_of_their_starts(tmp_path: Path) -> None:
    (tmp_path / "1.trace").write_text(Trace(pid=1, started_ns=9 * MS).text())
    (tmp_path / "2.trace").write_text(Trace(pid=2, started_ns=5 * MS).text())

    processes, unreadable = read_traces(tmp_path)

    assert ([process.pid for process in processes], unreadable) == ([2, 1], ())


def test_a_damaged_trace_is_named_and_one_without_a_whole_line_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "damaged.trace").write_text("garbage\n")
    (tmp_path / "early.trace").write_text("('process', 12")
    (tmp_path / "empty.trace").touch()

    processes, (reason,) = read_traces(tmp_path)

    assert processes == ()
    assert reason.startswith("damaged.trace: line 1 of an import trace is not a record")
