# SPDX-License-Identifier: Apache-2.0
"""An interpreter that looks at sys.modules again after it has waited: the shim can go, and no race is told.

No released interpreter on our machines does so. A `.pth` file of the test makes one that does what CPython's gh-143650
has for it: the import statement hands out what sys.modules holds when the wait is over.
"""

import json
from pathlib import Path

import pytest

from ci_doctor.preload.trial import self_replacement_race
from tests.integration.preload_venvs import Venv, interpreters
from tests.support.cli import doctor

pytestmark = pytest.mark.integration

LOOKS_AGAIN = """
import builtins, sys
original = builtins.__import__

def look_again(name, globals=None, locals=None, fromlist=(), level=0):
    module = original(name, globals, locals, fromlist, level)
    handed_out = name if fromlist else name.partition(".")[0]
    return module if level else sys.modules.get(handed_out, module)

builtins.__import__ = look_again
"""
REPLACES_ITSELF = """
import sys, types
lazy = types.ModuleType(__name__)
lazy.__spec__, lazy.__file__, lazy.thing = __spec__, __file__, 1
sys.modules[__name__] = lazy
"""
PROGRAM = """
import threading, time

done = []

def warm_up():
    import lazy
    done.append(True)

threading.Thread(target=warm_up).start()
while not done:  # which is no order for the recorder
    time.sleep(0.001)
from lazy import thing
"""


@pytest.fixture
def immune(tmp_path: Path) -> Venv:
    venv = Venv(interpreters()["own"], tmp_path / "v")
    venv.put(
        {
            "lazy.py": REPLACES_ITSELF,
            "_looks_again.py": LOOKS_AGAIN,
            "looks_again.pth": "import _looks_again\n",
        }
    )
    return venv


def test_it_is_asked_and_not_told_by_its_version(immune: Venv, tmp_path: Path) -> None:
    exposed = Venv(interpreters()["own"], tmp_path / "exposed")
    assert [self_replacement_race(venv.python) for venv in (immune, exposed)] == [False, True]


@pytest.mark.nightly
def test_verify_says_that_the_shim_can_go(immune: Venv) -> None:
    place = ("--venv", immune.directory)
    assert doctor("preload", "install", "serve=lazy:thing", *place, cwd=immune.directory).code == 0

    ran = doctor("preload", "verify", *place, "--runs", "2", "--json", cwd=immune.directory)

    report = json.loads(ran.out)
    (unneeded,) = [
        finding for finding in report["findings"] if finding["rule"] == "preload/not-needed"
    ]
    assert (ran.code, report["verdict"]) == (0, "pass")
    assert "looks again after waiting" in unneeded["summary"], unneeded
    assert "ci-doctor preload remove" in unneeded["remedy"]


@pytest.mark.nightly
def test_a_race_that_others_would_have_is_no_finding_and_the_interpreter_is_called_immune(
    immune: Venv,
) -> None:
    (immune.directory / "app.py").write_text(PROGRAM)

    ran = doctor("import-race", "--json", "--", immune.python, "app.py", cwd=immune.directory)

    report = json.loads(ran.out)
    assert (ran.code, report["verdict"]) == (0, "pass"), ran
    assert report["findings"] == []
    assert set(report["facts"]["interpreters"].values()) == {"immune"}
