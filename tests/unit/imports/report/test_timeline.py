# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from ci_doctor.imports.record.recorded import RecordedProcess
from ci_doctor.imports.record.recording import recording
from ci_doctor.imports.record.trace import read_trace
from ci_doctor.imports.report.timeline import chrome_trace
from tests.unit.imports.traces import MS, Trace


def drawn(*processes: RecordedProcess) -> list[dict[str, Any]]:
    whole = json.loads(json.dumps(chrome_trace(processes)))
    assert sorted(whole) == ["displayTimeUnit", "otherData", "traceEvents"]
    assert whole["displayTimeUnit"] == "ms"
    events: list[dict[str, Any]] = whole["traceEvents"]
    return events


def of_phase(events: list[dict[str, Any]], phase: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == phase]


def assert_nested(events: list[dict[str, Any]]) -> None:
    """Of any two spans of a thread, one contains the other, or they are apart; and they come in the order of their start."""
    spans: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in of_phase(events, "X"):
        assert event["dur"] >= 0
        spans[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for thread in spans.values():
        assert thread == sorted(thread, key=lambda span: (span[0], -span[1]))
        around: list[tuple[float, float]] = []
        for began, ended in thread:
            while around and around[-1][1] <= began + 0.001:
                around.pop()
            assert not around or ended <= around[-1][1] + 0.001, (around, began, ended)
            around.append((began, ended))


def test_an_import_is_a_span_of_its_thread_with_place_and_result() -> None:
    trace = Trace(pid=7)
    trace.background("app")
    trace.ask(1, "outer", line=3)
    trace.begin(1, "outer")
    trace.load(1, "lazy", replaced=True)
    trace.end(1)
    events = drawn(trace.process())
    assert_nested(events)
    outer, lazy = of_phase(events, "X")
    assert (outer["name"], outer["cat"], outer["pid"], outer["tid"]) == ("outer", "import", 7, 1)
    assert (outer["ts"], outer["dur"]) == (2000, 4000)
    assert (lazy["ts"], lazy["dur"]) == (4000, 1000)
    assert lazy["args"] == {
        "within": "outer",
        "file": "outer.py",
        "line": 11,
        "status": "loaded",
        "replaced": True,
    }


def test_threads_and_processes_are_named() -> None:
    trace = Trace(pid=7)
    trace.background("app")
    names = [
        (event["name"], event["tid"], event["args"])
        for event in of_phase(drawn(trace.process()), "M")
    ]
    assert ("process_name", 0, {"name": "py app.py (pid 7)"}) in names
    assert ("thread_name", 1, {"name": "Thread-1, started at app.py:5"}) in names
    assert ("thread_sort_index", 1, {"sort_index": 1}) in names


def test_times_begin_with_the_first_process() -> None:
    first, second = Trace(pid=1, started_ns=5 * MS), Trace(pid=2, started_ns=9 * MS)
    second.load(0, "a")
    assert of_phase(drawn(second.process(), first.process()), "X")[0]["ts"] == 6000


def test_a_wait_is_a_span_with_its_owner_and_an_avoided_deadlock_an_instant() -> None:
    trace = Trace()
    trace.background()
    trace.ask(1, "b")
    trace.event("wait", 0, "lazy", 1, MS // 2, "replaced")
    trace.event("deadlock", 0, "b", 1, ("a",), False)
    events = drawn(trace.process())
    (wait,) = of_phase(events, "X")
    assert (wait["cat"], wait["ts"], wait["dur"]) == ("wait", 1500, 500)
    assert wait["args"] == {"outcome": "replaced", "owner": "Thread-1"}
    (instant,) = of_phase(events, "i")
    assert (instant["s"], instant["ts"], instant["args"]) == (
        "p",
        3000,
        {"held": ["a"], "owner": "Thread-1"},
    )


def test_an_import_without_an_end_lasts_until_the_last_event() -> None:
    trace = Trace()
    trace.ask(0, "slow")
    trace.begin(0, "slow")
    trace.ask(0, "other")
    process = read_trace(trace.text(exited=False))
    assert process is not None
    (slow,) = of_phase(drawn(process), "X")
    assert (slow["ts"], slow["dur"], slow["args"]["unfinished"]) == (2000, 1000, True)


def test_nothing_recorded_is_an_empty_picture() -> None:
    assert drawn() == []


def test_the_imports_of_a_real_program_nest_in_each_thread(tmp_path: Path) -> None:
    (tmp_path / "part_a.py").write_text("import part_b, http.client")
    (tmp_path / "part_b.py").write_text("import decimal, csv")
    text = """
import threading
def background():
    import part_a
threads = [threading.Thread(target=background) for _ in range(3)]
for thread in threads: thread.start()
import part_c, http.client
for thread in threads: thread.join()
"""
    (tmp_path / "part_c.py").write_text("import part_b, email.message")
    subprocess.run(
        [sys.executable, "-c", text], env=recording(os.environ, tmp_path), check=True, cwd=tmp_path
    )
    (path,) = tmp_path.glob("*.trace")
    process = read_trace(path.read_text("ascii"))
    assert process is not None
    events = drawn(process)
    assert_nested(events)
    spans = of_phase(events, "X")
    assert {"part_a", "part_b", "part_c"} <= {event["name"] for event in spans}
    assert len({event["tid"] for event in spans}) >= 2
