# SPDX-License-Identifier: Apache-2.0
"""The lines that the pytest plugin beside this file writes: reports of pytest as JSON, bounded.

It runs in the interpreter of the tests, Python 3.8 or later.
"""

from __future__ import annotations

import json
import os
import sys
from json.encoder import encode_basestring_ascii
from typing import Any

import pytest

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
    if isinstance(text, tuple) and len(text) == 3:  # a skip: file, line, reason
        record["message"] = bounded(str(text[2]))
        return
    crash = getattr(text, "reprcrash", None)
    if crash is not None:
        record["message"] = bounded(str(crash.message))
        record["file"] = str(crash.path)
        record["line"] = crash.lineno
    record["traceback"] = bounded(getattr(report, "longreprtext", "") or str(text or ""))


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


def process_line(config: Any, is_controller: bool) -> dict[str, Any]:
    worker = getattr(config, "workerinput", {}).get("workerid")
    option = config.option
    seed = getattr(option, "randomly_seed", None)
    distributions = [each for _, each in config.pluginmanager.list_plugin_distinfo()]
    return {
        "k": "process",
        "p": os.getpid(),
        "worker": worker,
        "is_controller": is_controller,
        "pytest": pytest.__version__,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "root": str(getattr(config, "rootpath", None) or config.rootdir),
        "plugins": sorted({each.project_name for each in distributions}),
        "maxfail": getattr(option, "maxfail", 0) or 0,
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
