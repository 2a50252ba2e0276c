# SPDX-License-Identifier: Apache-2.0
"""What the pytest plugin beside this file writes while pytest starts and collects, if there is a time limit.

It runs in the interpreter of the tests, Python 3.8 or later.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from typing import Any

import pytest
from ci_doctor_pytest_lines import RecordFile, clean  # type: ignore[import-not-found]  # beside this file

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
