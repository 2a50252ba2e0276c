# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that writes each attempt of each test to a file, one JSON value a line.

It runs in the interpreter of the tests, Python 3.8 and pytest 7 or later, where ci-doctor need not
be installed. PYTEST_DONT_REWRITE: it holds no assertion. Every process of a run appends to the same
file, each line by one write(2). What goes wrong here never reaches the tests: a line that could not
be written is a result that is missing, and ci-doctor says so.
"""

from __future__ import annotations

import copy
import faulthandler
import json
import os
import re
import signal
import sys
import time
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any

import pytest
from _ci_doctor_options import (  # type: ignore[import-not-found]
    OF_ALL_TESTS,
    change_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = "CI_DOCTOR_PYTEST_RECORD"  # the file
PLAN = "CI_DOCTOR_PYTEST_PLAN"  # what ci-doctor wants of this run: a file of JSON, or absent
_PHASES = ("setup", "call", "teardown")


# --- the lines: reports of pytest as JSON, bounded ---

_TEXT = 16384  # characters of a traceback, and of captured output, that are kept
_HEAD = 4096  # of them, how many from the beginning


class RecordFile:
    """Appends lines to a file, whatever a test does to our descriptor."""

    # Held in a class: fixtures that replace functions in modules (mocks, fake file systems) leave them.
    _write = staticmethod(os.write)
    _open = staticmethod(os.open)
    _fstat = staticmethod(os.fstat)
    _getpid = staticmethod(os.getpid)

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1
        self._identity: tuple[int, int] | None = None
        self._pid = self._getpid()

    def write(self, record: Any) -> None:
        self.append(json.dumps(record) + "\n")

    def append(self, line: str) -> None:
        # A child that a test forked, and that left the test by an exception, runs on as if it were pytest.
        if self._getpid() != self._pid:
            return
        try:
            self._write(self._opened(), line.encode("ascii"))
        except OSError:
            pass

    def _opened(self) -> int:
        # A test may close every descriptor, and then open a file of its own with this number.
        if self._descriptor >= 0:
            try:
                status = self._fstat(self._descriptor)
                if (status.st_dev, status.st_ino) == self._identity:
                    return self._descriptor
            except OSError:
                pass
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = self._open(self.path, flags, 0o600)
        status = self._fstat(self._descriptor)
        self._identity = (status.st_dev, status.st_ino)
        return self._descriptor


def quoted(text: str) -> str:
    return encode_basestring_ascii(clean(text))


def phase(report: Any) -> str:
    outcome = report.outcome
    # By far the most of them; a test that passes against expectation has `wasxfail`.
    if outcome == "passed" and "wasxfail" not in report.__dict__:
        return '["%s","passed",%.6f]' % (report.when, report.duration)
    if hasattr(report, "wasxfail"):
        outcome = "xpassed" if outcome == "passed" else "xfailed"
    seconds = getattr(report, "duration", 0.0)
    return "[%s,%s,%.6f]" % (quoted(report.when), quoted(outcome), seconds)


def is_of_test(report: Any) -> bool:
    """Whether it ends a phase of the test itself, after its setup.

    A report of a subtest may come before that of the setup of its test.
    """
    is_subtest = type(report).__name__.lower() == "subtestreport"
    return report.when != "setup" and not is_subtest


def is_call(report: Any) -> bool:
    """Whether it is of a call of the test itself, and of no subtest."""
    return report.when == "call" and is_of_test(report)


def decisive_report(reports: list[Any]) -> Any:
    """The report that says most: the first that did not pass."""
    decisive = None
    for report in reports:
        if report.outcome == "passed":
            continue
        if report.outcome != "skipped":
            return report
        decisive = decisive or report
    return decisive


def add_outcome(report: Any, record: dict[str, Any]) -> None:
    text = report.longrepr
    if isinstance(text, tuple) and len(text) == 3:  # a skip
        record["file"], record["line"] = str(text[0]), text[1]
        record["message"] = bounded(skip_reason(text))
        return
    crash = getattr(text, "reprcrash", None)
    if crash is not None:
        record["message"] = bounded(str(crash.message))
        record["file"], record["line"] = place(report, crash)
    elif isinstance(text, str):  # `[XPASS(strict)] reason`
        record["message"] = bounded(text)
    if report.outcome == "skipped" and hasattr(report, "wasxfail"):
        record["message"] = bounded(re.sub("^reason: ", "", str(report.wasxfail)))
    record["traceback"] = bounded(getattr(report, "longreprtext", "") or str(text or ""))


# A test may change its directory, and paths of frames are relative to the first one.
_BEGAN_IN = os.getcwd()
# The standard library and installed packages. unittest's assertions raise there, and hide these frames.
_INSTALLED = tuple(
    os.path.dirname(each) + os.sep for each in (os.__file__, os.path.dirname(pytest.__file__))
)


def place(report: Any, crash: Any) -> tuple[str, int]:
    """The file and line of a failure: of the last frame that is shown, if what raised it is installed."""
    if not str(crash.path).startswith(_INSTALLED):
        return str(crash.path), crash.lineno
    entries = getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", ())
    shown = [each.reprfileloc for each in entries if getattr(each, "reprfileloc", None) is not None]
    if shown:
        return os.path.join(_BEGAN_IN, str(shown[-1].path)), shown[-1].lineno
    file, line, _ = report.location
    return str(file), (line or 0) + 1


def skip_reason(text: Any) -> str:
    """Without the word of the outcome; text: file, line, reason."""
    reason = str(text[2] if isinstance(text, tuple) and len(text) == 3 else text)
    return re.sub("^Skipped: ", "", reason)


def output(reports: list[Any]) -> str:
    # Each report repeats the sections of those before it.
    sections: dict[str, str] = {}
    for report in reports:
        sections.update(dict(report.sections))
    parts = ["--- %s ---\n%s" % each for each in sections.items() if each[1]]
    return bounded("\n".join(parts))


def bounded(text: str) -> str:
    if len(text) > _TEXT:
        left_out = len(text) - _TEXT
        tail = text[_HEAD - _TEXT :]
        text = "%s\n[... %d characters left out ...]\n%s" % (text[:_HEAD], left_out, tail)
    return clean(text)


def clean(text: str) -> str:
    """Without half characters (surrogates), which no reader of JSON takes."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def process_line(config: Any) -> dict[str, Any]:
    worker = getattr(config, "workerinput", {}).get("workerid")
    option = config.option
    seed = getattr(option, "randomly_seed", None)
    distributions = [each for _, each in config.pluginmanager.list_plugin_distinfo()]
    return {
        "k": "process",
        "p": os.getpid(),
        "worker": worker,
        "pytest": pytest.__version__,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "root": str(getattr(config, "rootpath", None) or config.rootdir),
        "plugins": sorted({each.project_name for each in distributions}),
        "maxfail": getattr(option, "maxfail", 0) or 0,
        "has_places": getattr(getattr(config, "args_source", None), "name", None) == "ARGS",
        "seed": seed if isinstance(seed, int) else None,
        "hash_seed": os.environ.get("PYTHONHASHSEED"),
        "path": [str(entry) for entry in sys.path],
    }


def loaded_from(folder: str) -> list[str]:
    """The files below `folder` that are loaded as modules, environments left out."""
    prefix = os.path.join(folder, "")
    environment = os.path.join(sys.prefix, "")
    files = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith(prefix) and not file.startswith(environment):
            files.append(clean(file))
    return sorted(files)[:20]


# --- runs of chosen tests: what changes for them ---

# Plugins of pytest's cache. A run of some tests must not be narrowed by the failures of the last run
# of all, nor be taken for it by the next one.
_CACHING = ("lfplugin", "lfplugin-collwrapper", "lfplugin-collskip", "nfplugin", "stepwiseplugin")


def leave_the_cache_alone(config: Any) -> None:
    for name in _CACHING:
        plugin = config.pluginmanager.get_plugin(name)
        if plugin is not None:
            config.pluginmanager.unregister(plugin)


def narrow(config: Any, names: list[str]) -> None:
    """Collect the files of these tests alone, if each of them is a file."""
    root = str(config.rootdir) if not hasattr(config, "rootpath") else str(config.rootpath)
    files = [os.path.join(root, name.split("::")[0]) for name in names]
    if all(os.path.isfile(file) for file in files):
        config.args = list(dict.fromkeys(files))


def choose(config: Any, items: list[pytest.Item], names: list[str]) -> None:
    """Keep the tests of these names, in their order."""
    by_name: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_name.setdefault(clean(item.nodeid), []).append(item)
    kept: list[pytest.Item] = []
    for name in dict.fromkeys(names):
        kept += by_name.pop(name, [])
    left_out = [item for each in by_name.values() for item in each]
    items[:] = kept
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def leave_out(config: Any, items: list[pytest.Item], names: list[str]) -> None:
    """Keep the tests that have none of these names."""
    done = set(names)
    left_out = [item for item in items if clean(item.nodeid) in done]
    items[:] = [item for item in items if clean(item.nodeid) not in done]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def narrowing(config: Any) -> str | None:
    """The option by which the failures of an earlier run leave tests out of this one, if any does."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return None
    for name, key, word in (("lf", "lastfailed", "--lf"), ("stepwise", "stepwise", "--sw")):
        if getattr(config.option, name, False) and cache.get("cache/" + key, None):
            return word
    return None


# --- what is written while pytest starts and collects, if there is a time limit ---

# The signal by which ci-doctor asks for the stacks of all threads, before it ends a test that hangs.
STACKS_SIGNAL = signal.SIGPWR  # nobody else's: it is sent to init, before a power failure


class CollectionRecorder:
    """Records what is loaded now: nothing of it is a test yet, and all of it can hang."""

    _monotonic = staticmethod(time.monotonic)

    def __init__(self, file: RecordFile, stacks: str) -> None:
        self._file = file
        self._path = stacks
        self._stacks: Any = None
        self._show_stacks_on_request()
        # pytest loads plugins and the first conftest files.
        self._begin("")

    def _show_stacks_on_request(self) -> None:
        try:
            self._stacks = open("%s.%d" % (self._path, os.getpid()), "w")
            # Its handler is C code: it answers while a test hangs in C.
            faulthandler.register(STACKS_SIGNAL, file=self._stacks, all_threads=True)
        except (OSError, ValueError, AttributeError):
            pass

    def _begin(self, name: str) -> None:
        self._write({"k": "collect", "id": clean(name)})

    def _end(self) -> None:
        self._write({"k": "collected"})

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write({**record, "p": os.getpid(), "t": self._monotonic()})

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self._end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectstart(self, collector: Any) -> None:
        # A class was imported with its module.
        if not isinstance(collector, pytest.Class):
            self._begin(collector.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self) -> None:
        self._end()


# --- what is written of tests, and of the run ---


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
        self._tried: set[str] = set()  # names of tests that have not passed at once
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
        if decisive is not None:
            self._tried.add(name)
        if self._keeps_output or name in self._tried:
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
        if config.pluginmanager.hasplugin("dsession"):
            recorder: Any = CrashRecorder(self._file, session)
        else:
            recorder = Recorder(self._file, session, self._plan.get("keeps_output", False))
        self._tests = recorder
        config.pluginmanager.register(recorder, "ci-doctor-tests")
        self._file.write({**process_line(config), "narrowed": narrowing(config)})

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

    def pytest_deselected(self, items: Any) -> None:
        if self._plan.get("names_deselected"):
            ids = [clean(item.nodeid) for item in items]
            self._file.write({"k": "deselected", "ids": ids})

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        path: Any = self._plan.get("collected")
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
        # The controller of pytest-xdist does not count those of its workers.
        elif report.skipped and not hasattr(self._config, "workerinput"):
            text = bounded(skip_reason(report.longrepr))
            self._file.write({"k": "collect-skip", "id": clean(report.nodeid), "text": text})

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
        change_options(config, OF_ALL_TESTS)
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
