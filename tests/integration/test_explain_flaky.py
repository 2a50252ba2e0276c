# SPDX-License-Identifier: Apache-2.0
"""Each condition of a trial reaches a real test, and `--explain-flaky` names what a real suite shows."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ci_doctor.pytest_runs.explaining import TrialRunner
from ci_doctor.pytest_runs.trial import Ending, FlakyTrial, TrialResult
from ci_doctor.system.processes.limited_runs import run_limited
from tests.support.cli import environment, inside
from tests.support.flaky_corpus.labels import LABELS, free_port, place

BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


class Suite:
    """A suite of one file, and trials of its tests."""

    def __init__(self, root: Path, text: str, *, arguments: Sequence[str] = ()) -> None:
        self.root = root
        (root / "project").mkdir(exist_ok=True)
        (root / "project" / "test_it.py").write_text(text)
        (root / "scratch").mkdir()
        self.output = ""
        self.runner = TrialRunner(
            python=sys.executable,
            arguments=("-p", "no:cacheprovider", *arguments),
            environ=environment({**BARE, "TZ": "UTC"}),
            scratch=root / "scratch",
            execute=self._execute,
        )

    def _execute(self, command: Sequence[str], environ: Mapping[str, str]) -> int | None:
        run = run_limited(command, timeout_s=60, cwd=self.root / "project", environ=environ)
        self.output = run.stdout
        return run.exit_code

    def trial(self, name: str = "test_it", **conditions: object) -> TrialResult:
        """The result of a trial of the test `name`; names of other tests belong to the same file."""
        for key in ("before", "earlier"):
            names = conditions.get(key, ())
            assert isinstance(names, tuple)
            conditions[key] = tuple(f"test_it.py::{each}" for each in names)
        trial = FlakyTrial(target=f"test_it.py::{name}", **conditions)  # type: ignore[arg-type]
        return self.runner.run(trial, None)


MakeSuite = Callable[..., Suite]


@pytest.fixture
def suite(tmp_path: Path) -> MakeSuite:
    return lambda text, **options: Suite(tmp_path, text, **options)


@pytest.mark.nightly
def test_the_seeds_and_the_zone_are_those_of_the_trial(suite: MakeSuite) -> None:
    trials = suite(
        "import os, random, time\n"
        "def test_it():\n"
        "    expected = (random.Random(5).random(), '7', 'IST')\n"
        "    assert (random.random(), os.environ['PYTHONHASHSEED'], time.tzname[0]) == expected\n"
    )

    assert trials.trial(seed=5, hash_seed=7, zone="Asia/Kolkata").ending is Ending.PASSED
    assert trials.trial(seed=6, hash_seed=7, zone="Asia/Kolkata").ending is Ending.FAILED


@pytest.mark.nightly
def test_a_local_day_begins_within_the_test(suite: MakeSuite) -> None:
    trials = suite(
        "import datetime as dt, time\n"
        "def test_it():\n"
        "    first = dt.date.today()\n"
        "    while time.localtime().tm_sec == 59:\n"
        "        pass\n"
        "    assert dt.date.today() == first + dt.timedelta(days=1)\n"
    )

    # Long enough that the test begins before it, however busy the machine is.
    assert trials.trial(boundary="midnight", lead_s=0.6).ending is Ending.PASSED


@pytest.mark.nightly
def test_under_load_the_clock_goes_on_and_the_test_does_not(suite: MakeSuite) -> None:
    trials = suite(
        "import time\n"
        "def test_it():\n"
        "    began, used = time.monotonic(), time.process_time()\n"
        "    while time.process_time() - used < 0.05:\n"
        "        pass\n"
        "    assert time.monotonic() - began > 0.15\n"
    )

    assert trials.trial(slow=(2.0, 18.0)).ending is Ending.PASSED


@pytest.mark.nightly
def test_a_port_is_taken_and_its_address_is_known(suite: MakeSuite) -> None:
    port = free_port()
    trials = suite(
        f"import socket\ndef test_it():\n    socket.create_server(('127.0.0.1', {port})).close()\n"
    )

    free = trials.trial()
    assert free.ending is Ending.PASSED
    assert [(each.host, each.port) for each in free.bound] == [("127.0.0.1", port)]
    taken = trials.trial(occupy=(("127.0.0.1", port),))
    assert (taken.ending, taken.types[0]) == (Ending.FAILED, "OSError")


@pytest.mark.nightly
def test_offline_only_services_outside_the_trial_cannot_be_reached(suite: MakeSuite) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        port = server.server_address[1]
        trials = suite(
            "import socket\n"
            "def test_own():\n"
            "    with socket.create_server(('127.0.0.1', 0)) as own:\n"
            "        socket.create_connection(own.getsockname()).close()\n"
            f"def test_it():\n    socket.create_connection(('127.0.0.1', {port})).close()\n"
        )

        assert trials.trial().connected == (f"127.0.0.1:{port}",)
        assert trials.trial(is_offline=True).types[0] == "ConnectionRefusedError"
        own = trials.trial("test_own", is_offline=True)
        assert (own.ending, own.connected) == (Ending.PASSED, ())


@pytest.mark.parametrize(
    ("kind", "name", "item"),
    [
        ("state", "cache", "state:shop.prices.price()"),
        ("environment", "removed_variable", "environ:SHOP_REGION"),
        ("concurrency", "idle_thread", "thread:thread"),
        ("concurrency", "closed_loop", "thread:loop"),
        ("file", "temporary_file", "file:$TMPDIR/shop.lock"),
        ("process", "held_lock", None),
    ],
)
@pytest.mark.nightly
def test_what_a_polluter_leaves_is_known_and_can_be_put_back(
    tmp_path: Path, kind: str, name: str, item: str | None
) -> None:
    label = next(each for each in LABELS if (each.kind, each.name) == (kind, name))
    placed = place(label, tmp_path / "project", served=0)
    trials = Suite(tmp_path, "").runner
    trial = FlakyTrial(target=placed.test, before=placed.before[-1:], restore=())

    polluted = trials.run(trial, label.error)
    assert polluted.ending is Ending.FAILED
    ids = [each.id for each in polluted.left]
    if item is None:
        item = next(each for each in ids if each.startswith("process:"))
    assert item in ids
    restored = FlakyTrial(target=placed.test, before=placed.before[-1:], restore=(item,))
    assert trials.run(restored, label.error).ending is Ending.PASSED


@pytest.mark.nightly
def test_what_a_trial_writes_is_taken_back_and_an_earlier_run_keeps_it(suite: MakeSuite) -> None:
    trials = suite(
        "from pathlib import Path\n"
        "def test_it():\n"
        "    Path('made').mkdir()\n"
        "    Path('made/file').touch()\n"
        "    Path('kept').write_text('changed')\n"
    )
    kept = trials.root / "project" / "kept"
    kept.write_text("as it was")

    assert trials.trial(earlier=("test_it",)).types[0] == "FileExistsError"
    assert trials.trial().ending is Ending.PASSED
    assert kept.read_text() == "as it was"
    assert not (trials.root / "project" / "made").exists()


@pytest.mark.nightly
def test_a_file_whose_name_is_not_utf_8_is_put_back_and_taken_back(suite: MakeSuite) -> None:
    trials = suite(
        "import os\n"
        "def test_first():\n    open(b'caf\\xe9', 'w').close()\n"
        "def test_it():\n    assert not os.path.exists(b'caf\\xe9')\n"
    )

    polluted = trials.trial(before=("test_first",), restore=())
    ids = tuple(each.id for each in polluted.left if each.id.startswith("file:"))
    assert len(ids) == 1
    assert trials.trial(before=("test_first",), restore=ids).ending is Ending.PASSED
    assert trials.trial().ending is Ending.PASSED


@pytest.mark.nightly
def test_an_object_that_registers_itself_when_it_is_destroyed_is_put_back_too(
    suite: MakeSuite,
) -> None:
    trials = suite(
        "LISTENERS = set()\n"
        "class Listener:\n    def __del__(self):\n        LISTENERS.add(self)\n"
        "def test_first():\n    LISTENERS.add(Listener())\n"
        "def test_it():\n    assert not LISTENERS\n"
    )

    item = ("state:test_it.LISTENERS",)
    assert trials.trial(before=("test_first",)).ending is Ending.FAILED
    assert trials.trial(before=("test_first",), restore=item).ending is Ending.PASSED


@pytest.mark.nightly
def test_options_of_the_user_change_neither_the_tests_nor_the_reports(suite: MakeSuite) -> None:
    trials = suite(
        "import os\n"
        "def test_first():\n    assert False\n"
        "def test_second():\n    assert 'PYTEST_XDIST_WORKER' not in os.environ\n",
        arguments=("-x", "-p", "xdist", "-n2", "--junitxml=report.xml"),
    )

    assert trials.trial("test_second", before=("test_first",)).ending is Ending.PASSED
    assert not (trials.root / "project" / "report.xml").exists()


def test_a_trial_leaves_the_files_of_the_users_own_run_alone(
    suite: MakeSuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", str(tmp_path))
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "core").touch()
    log = tmp_path / "own.log"
    # More than what is copied before a trial changes it.
    log.write_text("said" * (1 << 19))
    trials = suite(
        "import os\n"
        "from pathlib import Path\n"
        "def test_it(tmp_path):\n    assert Path(os.environ['TMPDIR']) in tmp_path.parents\n",
        arguments=("--basetemp", str(kept), "--log-file", str(log)),
    )

    assert trials.trial().ending is Ending.PASSED
    assert (kept / "core").exists()
    assert log.stat().st_size == 1 << 21


@pytest.mark.parametrize("body", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
@pytest.mark.nightly
def test_a_process_that_ends_within_the_target_is_a_failure(suite: MakeSuite, body: str) -> None:
    found = suite(f"import os\ndef test_it():\n    {body}\n").trial()

    assert (found.ending, found.types) == (Ending.FAILED, ("crash",))


def test_the_command_explains_a_flaky_suite(tmp_path: Path) -> None:
    label = next(
        each for each in LABELS if (each.kind, each.name) == ("environment", "set_variable")
    )
    placed = place(label, tmp_path / "project", served=0)

    ran = inside(
        "pytest",
        *("--python", sys.executable, "--explain-flaky", "--reruns", "1", "--json", "--", "-q"),
        cwd=placed.directory,
        env=BARE,
    )

    assert ran.code == 1, ran
    facts = json.loads(ran.out)["facts"]
    [explained] = [each for each in facts["tests"] if each["test"] == placed.test]
    explanation = explained["explanation"]
    assert explanation["kind"] == "environment", ran
    assert explanation["culprit"] == placed.before[-1]
    assert explanation["left"] == ["SHOP_MODE was unset, is 'fast'"]
    # Pasted into a shell, the command shows the failure, and the control does not.
    for command, code in ((explanation["reproduce"], 1), (explanation["control"], 0)):
        words = ["sh", "-c", command]
        shown = run_limited(words, timeout_s=60, cwd=placed.directory, environ=os.environ | BARE)
        assert shown.exit_code == code, shown.stdout
