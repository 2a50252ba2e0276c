# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that writes each attempt of each test to a file, one JSON value a line.

It runs in the interpreter of the tests, Python 3.8 and pytest 7 or later, where ci-doctor need not
be installed. PYTEST_DONT_REWRITE: it holds no assertion. Every process of a run appends to the same
file, each line by one write(2). What goes wrong here never reaches the tests: a line that could not
be written is a result that is missing, and ci-doctor says so.
"""

from __future__ import annotations

import copy
import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from ci_doctor_pytest_chosen import (  # type: ignore[import-not-found]  # beside this file
    change_options,
    choose,
    leave_out,
    leave_the_cache_alone,
    narrow,
    narrowing,
)
from ci_doctor_pytest_collecting import (  # type: ignore[import-not-found]  # beside this file
    CollectionRecorder,
)
from ci_doctor_pytest_lines import (  # type: ignore[import-not-found]  # beside this file
    RecordFile,
    add_outcome,
    bounded,
    clean,
    decisive_report,
    is_call,
    is_of_test,
    loaded_from,
    output,
    phase,
    process_line,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = "CI_DOCTOR_PYTEST_RECORD"  # the file
PLAN = "CI_DOCTOR_PYTEST_PLAN"  # what ci-doctor wants of this run: a file of JSON, or absent
_PHASES = ("setup", "call", "teardown")


class Recorder:
    """Records the tests that this process runs. failed: how many reports of failures it got."""

    # Held in a class: a fixture that freezes the time replaces these functions in modules.
    _epoch = staticmethod(time.time)
    _monotonic = staticmethod(time.monotonic)

    def __init__(self, file: RecordFile, session: Any, keeps_output: bool) -> None:
        self.failed = 0
        self.counted = 0  # by pytest itself, after the last test
        self._session = session
        self._file = file
        self._keeps_output = keeps_output
        self._pid = os.getpid()
        self._count = 0
        self._begun: dict[str, tuple[str, int, float]] = {}  # quoted name, count, time
        self._reports: dict[str, list[Any]] = {}
        self._calls: dict[str, Any] = {}  # by name, the report of the last call, logged or not

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        name = item.nodeid
        self._begin(name)
        yield
        self._end(name)
        self._begun.pop(name, None)
        self.counted = self._session.testsfailed

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Iterator[None]:
        outcome: Any = yield
        if call.when == "call":
            self._calls[item.nodeid] = outcome.get_result()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # Plugins that run a test again announce it so.
        if nodeid in self._reports:
            self._end(nodeid)
            self._begin(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid
        if report.outcome != "passed":
            # pytest-retry makes this very report one of a pass later.
            report = copy.copy(report)
        reports = self._reports.get(name)
        if reports is None:
            reports = self._reports[name] = []
        # Or they just do it.
        elif report.when == "setup" and any(is_of_test(each) for each in reports):
            self._end(name)
            self._begin(name)
            reports = self._reports[name] = []
        # Or they call it once more, behind the same setup.
        elif is_call(report) and any(is_call(each) for each in reports):
            setup = [each for each in reports if each.when == "setup"]
            self._end(name)
            self._begin(name)
            reports = self._reports[name] = setup
        reports.append(report)
        if report.failed and not hasattr(report, "wasxfail"):
            self.failed += 1
        # A runner of its own without pytest's protocol.
        if name not in self._begun and report.when == "teardown":
            self._end(name)

    def _begin(self, name: str) -> None:
        self._count += 1
        text = quoted(name)
        self._begun[name] = (text, self._count, self._epoch())
        self._file.append(
            '{"k":"start","p":%d,"id":%s,"n":%d,"t":%.6f}\n'
            % (self._pid, text, self._count, self._monotonic())
        )

    def _end(self, name: str) -> None:
        reports = self._reports.pop(name, None)
        call = self._calls.pop(name, None)
        if not reports:
            return
        # The plugin `flaky` tells nobody of a call after which it runs the test again.
        if call is not None and not any(is_call(each) for each in reports):
            if call.outcome == "failed":
                call = copy.copy(call)
                call.outcome = "rerun"
            reports.insert(len([each for each in reports if each.when == "setup"]), call)
        begun = self._begun.get(name) or (quoted(name), self._count, self._epoch())
        details = ""
        decisive = decisive_report(reports)
        if decisive is not None or self._keeps_output:
            details = self._details(reports, decisive)
        self._file.append(
            '{"k":"test","p":%d,"id":%s,"n":%d,"at":%.3f,"t":%.6f,"phases":[%s]%s}\n'
            % (
                os.getpid(),
                *begun,
                self._monotonic(),
                ",".join([phase(report) for report in reports]),
                details,
            )
        )

    def _details(self, reports: list[Any], decisive: Any) -> str:
        record: dict[str, Any] = {}
        if decisive is not None:
            add_outcome(decisive, record)
        text = output(reports)
        if text:
            record["output"] = text
        return "," + json.dumps(record)[1:-1] if record else ""


class CrashRecorder:
    """Records the workers of pytest-xdist that ended while they ran a test."""

    def __init__(self, file: RecordFile, session: Any) -> None:
        self.failed = 0
        self.counted = 0  # by pytest itself, after the last report
        self._session = session
        self._file = file

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> Iterator[None]:
        yield
        self.counted = self._session.testsfailed
        if report.failed and not hasattr(report, "wasxfail"):
            self.failed += 1
        # The workers write the rest themselves. This one is pytest-xdist's own: a test never has
        # such a phase.
        if report.when not in _PHASES:
            node = getattr(report, "node", None)
            gateway = getattr(node, "gateway", None)
            self._file.write(
                {
                    "k": "crash",
                    "id": clean(report.nodeid),
                    "worker": getattr(gateway, "id", None),
                    # By pytest-rerunfailures, on another worker.
                    "is_retried": report.outcome == "rerun",
                    "text": bounded(str(report.longrepr)),
                }
            )


class RunRecorder:
    """Records what is collected, and how the run begins and ends."""

    def __init__(self, config: Any, file: RecordFile, plan: dict[str, Any]) -> None:
        self._config = config
        self._file = file
        self._plan = plan
        self._collect_errors = 0
        self._tests: Any = None

    def pytest_sessionstart(self, session: Any) -> None:
        config = self._config
        is_controller = config.pluginmanager.hasplugin("dsession")
        if is_controller:
            recorder: Any = CrashRecorder(self._file, session)
        else:
            recorder = Recorder(self._file, session, self._plan.get("keeps_output", False))
        self._tests = recorder
        config.pluginmanager.register(recorder, "ci-doctor-tests")
        self._file.write({**process_line(config, is_controller), "narrowed": narrowing(config)})

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: Any, items: list[pytest.Item]
    ) -> Iterator[None]:
        yield
        # After all others, so that the order is the one that is wanted.
        chosen = self._plan.get("tests")
        if chosen:
            choose(config, items, chosen)
        done = self._plan.get("without")
        if done:
            leave_out(config, items, done)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        path = self._plan.get("collected")
        # Each worker of pytest-xdist collects the same. The first whole line is kept.
        try:
            if not path or os.path.getsize(path):
                return
        except OSError:
            pass
        RecordFile(path).write([clean(item.nodeid) for item in session.items])

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            # pytest counts it among the tests that failed.
            self._collect_errors += 1
            self._file.write(
                {
                    "k": "collect-error",
                    "id": clean(report.nodeid),
                    "text": bounded(str(report.longrepr)),
                }
            )

    def pytest_internalerror(self, excrepr: object) -> None:
        self._file.write({"k": "internal-error", "p": os.getpid(), "text": bounded(str(excrepr))})

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> Iterator[None]:
        yield
        status = getattr(session, "exitstatus", exitstatus)
        failed = session.testsfailed
        record = {
            "k": "finish",
            "p": os.getpid(),
            "exit": int(status),
            # pytest hands over the very object that the session holds.
            "is_changed": status is not exitstatus,
            "stopped": str(session.shouldfail or session.shouldstop or "") or None,
            "is_stepwise": bool(getattr(self._config.option, "stepwise", False)),
            # pytest-cov adds one if too little is covered. pytest-rerunfailures takes some back.
            "other_failures": max(
                0,
                failed - self._tests.failed - self._collect_errors,
                failed - max(self._tests.counted, self._collect_errors),
            ),
        }
        watched = self._plan.get("watched")
        if watched:
            record["loaded"] = loaded_from(watched)
        self._file.write(record)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: Any) -> None:
    plan = _plan()
    if plan.get("is_rerun"):
        change_options(config)
    if plan.get("only_their_files") and plan.get("tests"):
        narrow(config, plan["tests"])


@pytest.hookimpl(trylast=True)
def pytest_configure(config: Any) -> None:
    path = os.environ.get(RECORD)
    if not path:
        return
    plan = _plan()
    if plan.get("is_rerun"):
        leave_the_cache_alone(config)
    if _collection is not None:
        config.pluginmanager.register(_collection, "ci-doctor-collection")
    config.pluginmanager.register(RunRecorder(config, RecordFile(path), plan), "ci-doctor-run")


def _plan() -> dict[str, Any]:
    path = os.environ.get(PLAN)
    if not path:
        return {}
    with open(path) as file:
        plan: dict[str, Any] = json.load(file)
    return plan


def _watched_collection() -> CollectionRecorder | None:
    path = os.environ.get(RECORD)
    stacks = _plan().get("stacks")
    if not path or not stacks:
        return None
    return CollectionRecorder(RecordFile(path), stacks)


# pytest loads other plugins and conftest files after this one, and they may hang.
_collection = _watched_collection()
