# SPDX-License-Identifier: Apache-2.0
"""A signal at any import of a start: ci-doctor ends quietly, with the signal's own exit code."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import ROOT, doctor, environment, words

pytestmark = pytest.mark.integration

# Sends the signal as the N-th module is looked for, counted from ci_doctor.__main__ on.
HOOK = """
import os, sys
at, number = int(os.environ.pop("AT")), int(os.environ.pop("NUMBER"))
class Finder:
    seen = 0
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "ci_doctor.cli" or cls.seen:
            cls.seen += 1
            if cls.seen == at:
                os.kill(os.getpid(), number)
sys.meta_path.insert(0, Finder)
"""
COMMANDS = {
    "run": ("run", "--", "true"),
    "launch": ("launch", "--service", "a=sleep 60", "--ready", "a=file:never", "--", "true"),
    "wait": ("wait", "--pid", "2", "--ready", "file:never"),
    "diagnose": ("diagnose", "nothing.log"),
    "pytest": ("pytest", "--", "--version"),
    "correctness": ("correctness", "--baseline", "a", "--candidate", "b", "--requests", "none"),
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("at", [1, 9, 40])
@pytest.mark.gate(4)
def test_a_signal_during_an_import_ends_the_start_in_one_line(
    tmp_path: Path, name: str, at: int, number: signal.Signals
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    variables = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "AT": str(at), "NUMBER": str(int(number))}

    ran = doctor(*COMMANDS[name], cwd=tmp_path, env=variables)

    assert ran.code == 128 + number, ran
    assert ran.err.count("\n") == 1, ran
    assert ran.err.startswith("error: ")
    assert number.name in ran.err


def test_a_second_signal_waits_for_no_helper(tmp_path: Path) -> None:
    deaf = "import signal; signal.signal(2, signal.SIG_IGN); signal.signal(15, signal.SIG_IGN)"
    program = f"{deaf}; import os, time; os.fork(); os.write(1, b'deaf\\n'); time.sleep(600)"
    line = ("launch", "--service", "a=sleep 600", "--ready", "a=file:/", "--")
    launched = subprocess.Popen(
        words(*line, sys.executable, "-c", program),
        cwd=tmp_path,
        env=environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert launched.stdout is not None
    assert launched.stdout.readline() + launched.stdout.readline() == "deaf\ndeaf\n"

    # Two at once would be one request: timeout(1) sends them so. No person sends one at each instruction of Python.
    while launched.poll() is None:
        os.kill(launched.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            launched.wait(timeout=0.05)
    launched.communicate(timeout=120)

    assert launched.returncode == 130
    assert (tmp_path / "ci-doctor-report" / "report.json").exists()
