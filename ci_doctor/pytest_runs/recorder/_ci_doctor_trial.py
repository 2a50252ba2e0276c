# SPDX-License-Identifier: Apache-2.0
"""Acts on other interpreters: a pytest plugin that runs the tests of one trial in its order.

CI_DOCTOR_TRIAL holds the trial as JSON, with the fields of `FlakyTrial` in ../trial.py. The plugin
makes the conditions that an environment cannot make, and writes what the target did to `result`.
It needs the standard library and pytest from 7.0 on.
"""

import functools
import json
import os
import random
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import _ci_doctor_options as options  # type: ignore[import-not-found]
import _ci_doctor_state as states  # type: ignore[import-not-found]
import _ci_doctor_trace as traces  # type: ignore[import-not-found]
import pytest

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional

# --- when a test begins, and how slowly it runs ---
# Load is imitated by stopping the whole process group for most of each period: the clock goes on, and
# the threads and processes of the test do not. Unlike burners it needs no CPU, and disturbs nobody.

# It stands outside the group that it stops. It ends with its stdin, whatever happens to the test.
_PULSES = """
import os, select, signal, sys
group, run_ms, stop_ms = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
try:
    os.nice(-15)
except OSError:
    pass
end = select.poll()
end.register(0, select.POLLIN | select.POLLHUP)
print("ready", flush=True)
try:
    while not end.poll(run_ms):
        os.killpg(group, signal.SIGSTOP)
        is_over = bool(end.poll(stop_ms))
        os.killpg(group, signal.SIGCONT)
        if is_over:
            break
except ProcessLookupError:
    pass
"""


class Pulses:
    """Stops the process group of this process again and again, until `end`."""

    def __init__(self, run_ms: float, stop_ms: float) -> None:
        words = [sys.executable, "-I", "-S", "-c", _PULSES]
        words += [str(os.getpgrp()), str(run_ms), str(stop_ms)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def end(self) -> None:
        """Let the group run freely again."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def seed(number: int) -> None:
    """Seed the generators that are loaded."""
    random.seed(number)
    numpy: "Any" = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number % 2**32)
    torch: "Any" = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        torch.manual_seed(number)


def wait_for_boundary(lead_s: float, *, midnight: bool) -> None:
    """Return `lead_s` seconds before the next second begins, or before the next local midnight.

    Midnight is brought here by the time zone: POSIX lets TZ name any offset up to a day.
    """
    begin = time.time()
    boundary = int(begin + lead_s) + 1.0
    if boundary - lead_s - begin < 0.005:
        boundary += 1.0
    if midnight:
        of_day = int(boundary) % 86400
        left = 86400 - of_day  # local time is UTC and this
        if left > 43200:
            left -= 86400
        # In TZ a positive offset lies west of Greenwich.
        sign, size = ("-", left) if left >= 0 else ("", -left)
        text = "%s%02d:%02d:%02d" % (sign, size // 3600, size // 60 % 60, size % 60)
        os.environ["TZ"] = "MID" + text
        time.tzset()
    time.sleep(max(0.0, boundary - lead_s - 0.002 - time.time()))
    while time.time() < boundary - lead_s:
        pass


# --- the hooks ---

# And options that would run other tests, run them elsewhere, or run them again.
_NEUTRAL: "Dict[str, Any]" = {
    **options.OF_ALL_TESTS,
    "numprocesses": None, "dist": "no", "tx": [], "reruns": 0, "count": 1, "randomly_reorganize": False,
    "random_order_bucket": "none", "new_first": False, "retries": 0, "flake_finder_enable": False,
}  # fmt: skip

# Read once: a test may change it.
_TEMPORARY = os.environ.get("TMPDIR", "/tmp")


class Plugin:
    """The hooks of a trial."""

    def __init__(self, trial: "Dict[str, Any]") -> None:
        self.trial = trial
        self.target = trial["tests"][-1]
        self.files = {test.split("::")[0] for test in trial["tests"]} | set(
            trial.get("collect", ())
        )
        self.result: "Dict[str, Any]" = {"outcome": None, "began": False}
        self.root = ""
        self.before: "Optional[Any]" = None
        # A trial that a person runs by hand has no result, and nobody undoes it.
        folder = os.path.dirname(trial["result"]) if "result" in trial else None
        self.trace = traces.started(folder, trial.get("own"))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_cmdline_main(self, config: "Any") -> "Iterator[None]":
        options.change_options(config, _NEUTRAL)
        if self.trial.get("seed") is not None and hasattr(config.option, "randomly_seed"):
            config.option.randomly_seed = self.trial["seed"]
        coverage = config.pluginmanager.get_plugin("_cov")
        if coverage is not None:
            coverage.options.cov_report = {}
            coverage.options.cov_fail_under = None
        self.root = str(config.rootpath)
        yield

    def pytest_ignore_collect(self, collection_path: "Any", config: "Any") -> "Optional[bool]":
        if collection_path.is_dir() or collection_path.name in {"__init__.py", "conftest.py"}:
            return None
        relative = os.path.relpath(str(collection_path), str(config.rootpath)).replace(os.sep, "/")
        return None if relative in self.files else True

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: "List[Any]") -> "Iterator[None]":
        by_id = {item.nodeid: item for item in reversed(items)}
        yield
        # After all other plugins: none of them may drop a test or change the order.
        items[:] = [by_id[test] for test in self.trial["tests"] if test in by_id]
        self.result["absent"] = [test for test in self.trial["tests"] if test not in by_id]

    def pytest_runtestloop(self) -> None:
        if self.trial.get("restore") is not None:
            self.before = states.Snapshot(self.root)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: "Any") -> "Iterator[None]":
        self.trace.test = item.nodeid
        if item.nodeid != self.target:
            undo = self._without_threads()
            yield
            undo()
            return
        self._restore()
        self.result["began"] = True
        self._write()
        undo = self._conditions()
        yield
        undo()
        self._write()

    def _without_threads(self) -> "Any":
        """In a trial without threads, the tests before the target start none."""
        threading = sys.modules["threading"]
        if "thread:thread" not in (self.trial.get("restore") or ()):
            return lambda: None
        start = threading.Thread.start
        threading.Thread.start = lambda thread: None
        return lambda: setattr(threading.Thread, "start", start)

    def _restore(self) -> None:
        """Put back what the tests before the target left, as far as the trial asks for it."""
        if self.before is None:
            return
        wanted = self.trial["restore"]
        changes = self._changes()
        self.result["left"] = [[name, what] for name, what, _ in changes]
        self._put_back(changes, wanted)
        # What was put back may have destroyed objects, whose finalizers change it again, but once only.
        self._put_back(self._changes(), wanted)

    def _changes(self) -> "List[Any]":
        changes = list(self.before.changes()) if self.before is not None else []
        changes += [self._file(path, "made") for path in self.trace.left()]
        return changes + [self._file(path, "changed") for path in self.trace.changed]

    def _put_back(self, changes: "List[Any]", wanted: "List[str]") -> None:
        for name, _, put_back in changes:
            if _clean(name).decode() in wanted or "*" in wanted:
                try:
                    put_back()
                except Exception as error:  # noqa: BLE001 - the trial shows that it was not put back
                    self.result.setdefault("not_restored", []).append("%s: %s" % (name, error))

    def _file(self, path: str, what: str) -> "Any":
        """A file as an item of state; its id is the same in each trial."""
        name = path
        if path.startswith(_TEMPORARY + os.sep):
            name = "$TMPDIR" + path[len(_TEMPORARY) :]
        sentence = "the file %s was %s" % (name, what)
        return ("file:" + name, sentence, functools.partial(self.trace.remove, path))

    def _conditions(self) -> "Any":
        """Make the conditions of the target, and return how to end them."""
        self.trace.is_paused = True
        held = [_occupied(host, port) for host, port in self.trial.get("occupy") or ()]
        self.trace.is_paused = False
        self.trace.is_refusing = bool(self.trial.get("is_offline"))
        pulses = None
        if self.trial.get("slow"):
            pulses = Pulses(*self.trial["slow"])

        def undo() -> None:
            if pulses is not None:
                pulses.end()
            self.trace.is_refusing = False
            for each in held:
                if each is not None:
                    each.close()

        return undo

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: "Any") -> "Iterator[None]":
        if self.trial.get("seed") is not None:
            seed(self.trial["seed"])
        yield

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: "Any") -> "Iterator[None]":
        if item.nodeid == self.target and self.trial.get("boundary"):
            is_midnight = self.trial["boundary"] == "midnight"
            wait_for_boundary(self.trial.get("lead_s") or 0.0, midnight=is_midnight)
        began = time.monotonic()
        yield
        if item.nodeid == self.target:
            self.result["duration_s"] = time.monotonic() - began

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: "Any", call: "Any") -> "Iterator[None]":
        outcome: "Any" = yield
        if item.nodeid != self.target:
            return
        report = outcome.get_result()
        result = self.result
        if report.outcome in {"failed", "rerun"} and result["outcome"] != "failed":
            result["outcome"] = "failed"
            self._error(call.excinfo)
        elif report.when == "call" and result["outcome"] is None:
            is_expected = report.outcome == "skipped" and hasattr(report, "wasxfail")
            result["outcome"] = "passed" if is_expected else report.outcome
        elif report.outcome == "skipped" and result["outcome"] is None:
            result["outcome"] = "skipped"

    def _error(self, excinfo: "Any") -> None:
        result = self.result
        if excinfo is None:  # an unexpected pass of a strict xfail
            result["types"] = ["XPASS"]
            return
        types = [each.__name__ for each in excinfo.type.__mro__ if each is not object]
        # The errors behind it count too: a client's own error hides the system's.
        error, cause = excinfo.value, excinfo.value.__cause__ or excinfo.value.__context__
        while cause is not None and cause is not error and len(types) < 40:
            types += [each.__name__ for each in type(cause).__mro__ if each is not object]
            cause = cause.__cause__ or cause.__context__
        result["types"] = types

    def _write(self) -> None:
        result = dict(self.result)
        result["bound"] = [list(each) for each in self.trace.bound]
        result["connected"] = [list(each) for each in self.trace.connected]
        path = self.trial.get("result")
        if path is None:
            return
        with open(path + ".new", "wb") as file:
            file.write(_clean(json.dumps(result, ensure_ascii=False)))
        os.replace(path + ".new", path)

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> "Iterator[None]":
        yield
        self._write()
        if "result" in self.trial:
            self.trace.write_undo(self.trial["result"] + ".undo")


def _clean(text: str) -> bytes:
    """`text` as UTF-8; a name that is not UTF-8 comes from Python as lone surrogates."""
    return text.encode("utf-8", "replace")


def _occupied(host: str, port: int) -> "Optional[socket.socket]":
    """A socket that holds the port, or None if something else holds it already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    holder = socket.socket(family, socket.SOCK_STREAM)
    # Connections of earlier trials may still be in TIME_WAIT.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind((host, port))
        holder.listen()
    except OSError:
        holder.close()
        return None
    return holder


def pytest_addoption(parser: "Any", pluginmanager: "Any") -> None:
    """Register the hooks before any other plugin is configured."""
    text = os.environ.pop("CI_DOCTOR_TRIAL")
    trial = json.loads(text)
    pluginmanager.register(Plugin(trial), "ci-doctor-trial")
