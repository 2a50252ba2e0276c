# SPDX-License-Identifier: Apache-2.0
import io
import os
import pty

import pytest

from ci_doctor.commands.progress import ProgressLines
from ci_doctor.correctness.attempt import ExperimentProgress

NOTE = "24 min 35 s left: about 124 starts of 11.8 s fit (measured in 1 start); the schedule needs 1 to 7 more"


def test_a_terminal_breaks_a_sentence_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setenv("COLUMNS", "80")
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        with ProgressLines() as progress:
            progress(ExperimentProgress(note=NOTE))
        told = os.read(ours, 4096).decode().splitlines()
    os.close(ours)
    assert " ".join(line.strip() for line in told) == NOTE
    assert max(map(len, told)) <= 80


def test_a_log_breaks_none(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    with ProgressLines() as progress:
        progress(ExperimentProgress(note=NOTE))
    assert log.getvalue() == NOTE + "\n"
