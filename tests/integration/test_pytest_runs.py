# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor pytest` as its users run it: real suites, in an environment that does not hold ci-doctor."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.integration.test_plugin_robust import needs_mounts
from tests.support.cli import begin, environment, words
from tests.support.git_repository import commit, make_repository
from tests.support.pytest_projects import RERUNFAILURES, XDIST, TestProject, make_environment

pytestmark = pytest.mark.integration

LIMIT_S = 120.0  # guards against hanging only
# Passes from the second time on.
ONCE = """
    from pathlib import Path

    def test_once():
        mark = Path(__file__).with_name("seen")
        print("seen:", mark.exists())
        if not mark.exists():
            mark.touch()
            assert False, "the first time"
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with pytest alone."""
    return make_environment(tmp_path_factory.mktemp("plain") / "venv")


@pytest.fixture(scope="module")
def python_with_plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with pytest-xdist and pytest-rerunfailures, too."""
    return make_environment(tmp_path_factory.mktemp("plugins") / "venv", *XDIST, *RERUNFAILURES)


@pytest.fixture
def project(tmp_path: Path, python: Path) -> TestProject:
    return TestProject(tmp_path / "project", python)


@pytest.fixture
def xdist_project(tmp_path: Path, python_with_plugins: Path) -> TestProject:
    return TestProject(tmp_path / "project", python_with_plugins)


def test_a_green_suite_passes_and_its_output_is_pytests_own(project: TestProject) -> None:
    project.put(
        "tests/test_many.py",
        """
        import unittest, pytest

        @pytest.mark.parametrize("x", ["a::b", "[x]", "é\\n", "", "a b"])
        def test_odd(x): print("printed")

        class TestUnit(unittest.TestCase):
            def test_unit(self): self.assertTrue(True)

        @pytest.mark.skip(reason="not here")
        def test_skip(): pass

        @pytest.mark.xfail
        def test_xfail(): assert False
        """,
    )

    ran = project.doctor("--", "-v", "-p", "no:cacheprovider")

    assert ran.code == 0, ran
    plain = project.pytest("-v", "-p", "no:cacheprovider")
    # The last line holds the time.
    assert ran.out.splitlines()[:-1] == plain.splitlines()[:-1]
    assert project.report["facts"]["counts"] == {"pass": 7, "skipped": 1}
    names = [case["name"] for case in project.report["cases"]]
    assert names[0] == "test_odd[a::b]"


def quarantine(*tests: str) -> str:
    """The file whose entries hold for a long time."""
    entry = '[[quarantine]]\ntest = "{}"\nreason = "r"\nowner = "o"\nuntil = 2999-01-01\n'
    return "".join(entry.format(test) for test in tests)


def junit_cases(path: Path) -> list[tuple[str, ...]]:
    """Name, outcome, type and (of what was skipped) message of each test case."""
    cases = []
    for case in ET.parse(path).getroot().iter("testcase"):
        ends = [each for each in case if each.tag in {"failure", "error", "skipped"}]
        reasons = [each for each in ends if each.get("type", "").startswith("pytest.")]
        words = [(each.attrib["type"], each.attrib["message"]) for each in reasons]
        cases.append((case.attrib["name"], *(each.tag for each in ends), *sum(words, ())))
    return sorted(cases)


@pytest.mark.gate(1)
@pytest.mark.parametrize("options", [[], ["-k", "xfail or skip"], ["-n2"], ["broken"]])
def test_the_junit_file_has_the_cases_of_pytests_own(
    xdist_project: TestProject, options: list[str]
) -> None:
    xdist_project.put(
        "test_many.py",
        """
        import pytest, unittest

        @pytest.fixture
        def breaks(request):
            if request.param == "setup": raise RuntimeError("setup")
            yield
            raise RuntimeError("teardown")

        @pytest.mark.parametrize("breaks", ["setup", "teardown"], indirect=True)
        def test_error(breaks): pass
        @pytest.mark.parametrize("x", [1, "a::b"])
        def test_fails(x): assert x == 1
        @pytest.mark.xfail(reason="known")
        def test_xfail(): assert 0
        @pytest.mark.xfail(run=False, reason="hangs")
        def test_xfail_not_run(): pass
        def test_xfail_within(): pytest.xfail("within")
        @pytest.mark.xfail(strict=True, reason="known")
        def test_xpass_strict(): pass
        @pytest.mark.xfail
        def test_xpass(): pass
        @pytest.mark.skip(reason="why")
        def test_skip(): pass
        class TestUnit(unittest.TestCase):
            @unittest.skip("unit")
            def test_unit_skip(self): pass
            @unittest.expectedFailure
            def test_unit_xfail(self): self.fail()
        """,
    )
    xdist_project.put(
        "test_skips.py", "import pytest\npytest.skip('whole', allow_module_level=True)\n"
    )
    xdist_project.put(
        "sub/test_import.py", "import pytest\npytest.importorskip('nothing_like_it')\n"
    )
    xdist_project.put("broken/test_broken.py", "import nothing_like_it\n")
    xdist_project.put("broken/test_ok.py", "def test_ok(): pass\n")
    xdist_project.put("pytest.ini", "[pytest]\nnorecursedirs = broken\n")

    own = xdist_project.directory / "own.xml"
    xdist_project.doctor("--reruns", "0", "--", f"--junitxml={own}", *options)

    assert junit_cases(xdist_project.reports / "junit.xml") == junit_cases(own) != []


def test_json_has_stdout_for_itself_and_the_recorded_environment_is_that_of_the_tests(
    project: TestProject,
) -> None:
    project.put("test_ok.py", "def test_ok(): pass\n")
    other = project.directory / ".venv"
    (other / "bin").mkdir(parents=True)
    (other / "bin" / "python").symlink_to(sys.executable)

    ran = project.doctor("--json", "--", "-q")

    assert (ran.code, json.loads(ran.out)["verdict"]) == (0, "pass"), ran
    assert "1 passed" in ran.err
    (interpreter,) = json.loads((project.reports / "environment.json").read_text())["interpreters"]
    assert interpreter["python"] == str(project.python)
    assert interpreter["packages"]["pytest"]["version"] == pytest.__version__


@pytest.mark.nightly
def test_a_forked_child_that_falls_back_into_pytest_is_no_attempt(project: TestProject) -> None:
    project.put(
        "test_fork.py",
        """
        import os, sys

        def test_forks():
            child = os.fork()
            if not child:
                sys.exit(3)
            assert os.waitpid(child, 0)[0] == child

        def test_after(): pass
        """,
    )

    ran = project.doctor("--", "-q")

    assert ran.code == 0, ran
    assert project.report["facts"]["counts"] == {"pass": 2}


def test_a_failure_of_every_attempt_is_failed_and_all_attempts_are_kept(
    project: TestProject,
) -> None:
    project.put(
        "test_bad.py",
        "def test_bad():\n    print('said')\n    assert 1 == 2\ndef test_ok(): pass\n",
    )

    ran = project.doctor("--", "--junitxml=own.xml", "-x")

    assert ran.code == 1, ran
    assert project.verdicts() == {"test_bad.py::test_bad": "failed"}, ran
    assert project.attempts("test_bad.py::test_bad") == [
        "suite failed",
        "alone failed",
        "alone failed",
    ]
    first = project.report["facts"]["tests"][0]["attempts"][0]
    assert project.report["summary"] == "1 failed, 1 not run"
    assert "assert 1 == 2" in first["traceback"]
    assert "said" in first["output"]
    assert (first["file"], first["line"]) == (str(project.directory / "test_bad.py"), 3)
    # The file of the user's own run is not written over by a run of one test.
    assert ET.parse(project.directory / "own.xml").getroot()[0].get("tests") == "1"
    attempts = ET.parse(project.reports / "attempts.xml").getroot()
    assert [case.get("name") for case in attempts.iter("testcase")].count("test_bad") == 3


@pytest.mark.parametrize("setting", ["", "log_file = own.log\n"], ids=["options", "settings"])
def test_a_run_of_one_test_leaves_the_files_of_the_run_of_all(
    project: TestProject, setting: str
) -> None:
    project.put("pytest.ini", f"[pytest]\nlog_file_level = INFO\n{setting}")
    project.put(
        "test_it.py",
        "import logging\n"
        "def test_ok(tmp_path):\n"
        "    logging.info('said')\n"
        "    (tmp_path / 'core').touch()\n"
        "def test_bad(tmp_path): assert 0\n",
    )
    options = () if setting else ("--log-file=own.log",)

    ran = project.doctor("--", "--basetemp=kept", *options)

    assert project.verdicts() == {"test_it.py::test_bad": "failed"}, ran
    assert (project.directory / "kept" / "test_ok0" / "core").exists()
    assert "said" in (project.directory / "own.log").read_text()


@pytest.mark.parametrize("options", [(), ("-n2",)])
@pytest.mark.gate(1)
def test_a_test_that_passes_the_next_time_is_flaky_and_a_failure_on_request(
    xdist_project: TestProject, options: tuple[str, ...]
) -> None:
    xdist_project.put("test_once.py", ONCE)

    ran = xdist_project.doctor("--fail-on-flaky", "--", *options)

    assert ran.code == 7, ran
    assert xdist_project.verdicts() == {"test_once.py::test_once": "flaky"}


@pytest.mark.nightly
def test_a_test_that_its_order_breaks_each_time_is_failed(project: TestProject) -> None:
    project.put(
        "test_order.py",
        """
        import os

        def test_first(): os.environ["LEFT"] = "1"
        def test_second(): assert "LEFT" not in os.environ
        """,
    )

    ran = project.doctor()

    assert ran.code == 1, ran
    victim = "test_order.py::test_second"
    # Three times each: chance is excluded.
    assert project.attempts(victim) == [
        "suite failed",
        "alone passed",
        "alone passed",
        "order failed",
        "alone passed",
        "order failed",
        "order failed",
    ]
    assert "test-run/order-dependent" in project.rules()
    # The test alone would pass.
    (finding,) = project.report["findings"]
    assert "ci-doctor pytest --explain-flaky" in finding["remedy"]


@pytest.mark.nightly
def test_a_failure_that_its_order_does_not_repeat_is_flaky(project: TestProject) -> None:
    project.put("test_a.py", "def test_before(): pass\n")
    project.put("test_once.py", ONCE)

    ran = project.doctor()

    # Flaky alone does not fail the run.
    assert (ran.code, project.report["verdict"]) == (0, "flaky"), ran
    assert project.attempts("test_once.py::test_once") == [
        "suite failed",
        "alone passed",
        "alone passed",
        "order passed",
    ]


@pytest.mark.gate(1)
@pytest.mark.parametrize("options", [("-x",), ("-x", "-n2"), ("--sw",)])
def test_the_tests_behind_a_flaky_stop_run(
    xdist_project: TestProject, options: tuple[str, ...]
) -> None:
    xdist_project.put("test_once.py", ONCE)
    xdist_project.put("test_z.py", "".join(f"def test_{number}(): pass\n" for number in range(30)))

    ran = xdist_project.doctor("--", *options)

    assert ran.code == 0, ran
    assert xdist_project.report["facts"]["counts"] == {"pass": 30, "flaky": 1}


def test_a_failure_behind_a_stop_in_quarantine_is_found(project: TestProject) -> None:
    project.put(
        "test_a.py", "def test_a(): assert 0\ndef test_ok(): pass\ndef test_b(): assert 0\n"
    )
    project.put("ci-doctor-quarantine.toml", quarantine("test_a.py::test_a"))

    ran = project.doctor("--reruns", "0", "--", "-x")

    assert ran.code == 1, ran
    assert project.report["facts"]["counts"] == {"quarantined": 1, "pass": 1, "failed": 1}


@pytest.mark.gate(1)
@pytest.mark.parametrize("option", ["--lf", "--sw"])
def test_what_an_earlier_run_would_leave_out_runs_too(project: TestProject, option: str) -> None:
    project.put("test_a.py", "def test_ok(): pass\ndef test_mended(): assert 0\n")
    project.put("test_b.py", "def test_b(): pass\n")
    project.pytest(option)
    project.put("test_a.py", "def test_ok(): assert 0\ndef test_mended(): pass\n")

    ran = project.doctor("--reruns", "0", "--", option)

    # The mended test passes, and what broke meanwhile is no pass.
    assert ran.code == 1, ran
    assert project.report["facts"]["counts"] == {"pass": 2, "failed": 1}


@pytest.mark.nightly
def test_a_plugin_that_stops_the_run_leaves_no_green_behind(project: TestProject) -> None:
    project.put("test_once.py", ONCE)
    project.put("test_z.py", "def test_z(): pass\n")
    project.put(
        "conftest.py",
        "def pytest_runtest_teardown(item): item.session.shouldstop = 'enough'\n",
    )

    ran = project.doctor()

    assert ran.code == 86, ran
    assert "pytest stopped: enough" in project.report["summary"]


# What the plugins `flaky` and pytest-retry do: the first tells nobody of a failed call, and the second
# makes the report of a failure that of a pass.
SILENT = """
    from _pytest import runner
    def pytest_runtest_protocol(item):
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for is_last in (False, True):
            runner.call_and_report(item, "setup")
            report = runner.call_and_report(item, "call", log=False)
            if report.passed or is_last:
                item.ihook.pytest_runtest_logreport(report=report)
            runner.call_and_report(item, "teardown", nextitem=None)
            if report.passed:
                break
            item._initrequest()
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True
"""
REWRITING = """
    import pytest
    from _pytest import runner
    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(item, call):
        report = yield
        if report.when == "call" and report.failed:
            report.outcome = "retried"
            item.ihook.pytest_runtest_logreport(report=report)
            again = runner.CallInfo.from_call(item.runtest, when="call")
            report.outcome = "failed" if again.excinfo else "passed"
        return report
"""


@pytest.mark.gate(1)
@pytest.mark.parametrize("plugin", [SILENT, REWRITING])
def test_retries_of_any_plugin_are_attempts(project: TestProject, plugin: str) -> None:
    project.put("conftest.py", plugin)
    project.put("test_once.py", ONCE)
    project.put("test_ok.py", "def test_ok(): pass\n")

    ran = project.doctor("--fail-on-flaky")

    assert ran.code == 7, ran
    assert project.attempts("test_once.py::test_once") == ["suite failed", "suite passed"]
    assert project.report["facts"]["counts"] == {"flaky": 1, "pass": 1}


@pytest.mark.nightly
@pytest.mark.parametrize("status", [1, 9])
def test_a_flaky_test_excuses_no_status_that_a_plugin_sets(
    project: TestProject, status: int
) -> None:
    project.put("test_once.py", ONCE)
    project.put(
        "conftest.py", f"def pytest_sessionfinish(session): session.exitstatus = {status}\n"
    )

    ran = project.doctor()

    assert ran.code == 1, ran
    assert f"exit code {status}, which no test explains" in project.report["summary"]


@pytest.mark.nightly
def test_fail_on_flaky_of_rerunfailures_ends_with_its_seven(
    xdist_project: TestProject,
) -> None:
    xdist_project.put("test_once.py", ONCE)

    ran = xdist_project.doctor("--", "-p", "no:xdist", "--reruns=1", "--fail-on-flaky")

    assert (ran.code, xdist_project.report["verdict"]) == (7, "flaky"), ran


def test_reruns_end_with_their_budget(project: TestProject) -> None:
    project.put(
        "test_many.py",
        """
        import pytest
        @pytest.fixture
        def server(): raise ConnectionError("port 8000: refused")
        @pytest.mark.parametrize("n", range(20))
        def test_many(n, server): pass
        """,
    )
    project.put("test_slow.py", "import time\ndef test_slow():\n    time.sleep(1)\n    assert 0\n")

    ran = project.doctor("--rerun-budget", "0.01s")

    assert ran.code == 1, ran
    assert "running 21 failed tests again, for at most 0 s in all" in ran.err
    # The first of them is ended, and its end is no failure.
    assert project.attempts("test_slow.py::test_slow") == ["suite failed"]
    assert len(project.report["facts"]["not_rerun"]) == 21
    assert "test-run/rerun-budget" in project.rules()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('shutil.rmtree(os.environ["TMPDIR"])', 0),
        ('shutil.rmtree(os.environ["TMPDIR"]); shutil.rmtree("../project-reports"); assert 0', 1),
        ("os.killpg(0, signal.SIGKILL)", 1),
    ],
)
@pytest.mark.gate(1)
def test_a_test_that_takes_our_folders_or_group_away_changes_no_verdict(
    project: TestProject, body: str, code: int
) -> None:
    project.put("test_a.py", "def test_a(): pass\n")
    project.put(
        "test_b.py",
        f"import os, shutil, signal\ndef test_b():\n    {body}\ndef test_c(): pass\n",
    )
    temporary = project.directory / "temporary"
    temporary.mkdir()

    ran = project.doctor("--", "-p", "no:cacheprovider", env={"TMPDIR": str(temporary), "CI": "1"})

    assert ran.code == code, ran
    expected = {"pass": 2, "failed": 1} if code else {"pass": 3}
    assert project.report["facts"]["counts"] == expected
    for session in project.report["facts"]["sessions"]:
        assert (project.reports / session["log"]).exists()


@pytest.mark.parametrize(
    ("ends", "code", "verdict", "said"),
    [
        ("os._exit(0)", 86, "void", ""),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 1, "failed", "SIGSEGV"),
    ],
    ids=["exit", "crash"],
)
def test_a_test_that_ends_its_process_is_named_and_the_other_tests_run(
    project: TestProject, ends: str, code: int, verdict: str, said: str
) -> None:
    project.put(
        "test_ends.py",
        f"import os, signal\ndef test_a(): pass\ndef test_ends(): {ends}\ndef test_b(): pass\n",
    )

    ran = project.doctor("--reruns", "0")

    assert ran.code == code, ran
    assert project.verdicts() == {"test_ends.py::test_ends": verdict}
    (attempt,) = project.attempts("test_ends.py::test_ends")
    assert attempt == ("suite crashed" if said else "suite lost")
    assert said in project.report["findings"][0]["summary"]
    assert project.report["facts"]["counts"] == {"pass": 2, verdict: 1}


def test_a_test_that_hangs_in_c_is_ended_and_its_stack_is_shown(project: TestProject) -> None:
    project.put(
        "test_hang.py",
        """
        import collections, itertools
        def loops_in_c(): collections.deque(itertools.repeat(0), maxlen=0)
        def test_hang(): loops_in_c()
        def test_after(): pass
        """,
    )

    ran = project.doctor("--timeout", "1", "--reruns", "0")

    assert ran.code == 1, ran
    assert project.attempts("test_hang.py::test_hang") == ["suite timeout"]
    assert "loops_in_c" in project.report["findings"][0]["evidence"][0]["excerpt"]
    assert project.report["facts"]["counts"] == {"pass": 1, "failed": 1}


@pytest.mark.nightly
def test_fixtures_that_freeze_the_time_and_replace_writing_hide_nothing(
    project: TestProject,
) -> None:
    project.put(
        "conftest.py",
        """
        import os, time, pytest

        @pytest.fixture(scope="session", autouse=True)
        def frozen():
            with pytest.MonkeyPatch.context() as patch:
                for name in ("time", "monotonic"):
                    patch.setattr(time, name, lambda: 1.0e12)
                patch.setattr(os, "write", None)
                yield
        """,
    )
    project.put(
        "test_frozen.py",
        """
        import collections, itertools
        def test_ok(): pass
        def test_hang(): collections.deque(itertools.repeat(0), maxlen=0)
        """,
    )

    ran = project.doctor("--timeout", "1", "--reruns", "0", "--", "-p", "no:cacheprovider")

    assert ran.code == 1, ran
    assert project.attempts("test_frozen.py::test_hang") == ["suite timeout"]
    assert project.report["facts"]["counts"] == {"pass": 1, "failed": 1}


@pytest.mark.nightly
def test_a_killed_worker_of_xdist_names_its_test(xdist_project: TestProject) -> None:
    xdist_project.put(
        "test_kill.py",
        """
        import os, signal, pytest
        def test_kill(): os.kill(os.getpid(), signal.SIGKILL)
        @pytest.mark.parametrize("n", range(6))
        def test_other(n): pass
        """,
    )

    ran = xdist_project.doctor(
        "--reruns", "0", "--", "-n2", "--dist=loadscope", "--max-worker-restart=0"
    )

    assert ran.code == 1, ran
    assert xdist_project.attempts("test_kill.py::test_kill") == ["suite crashed"]
    # What the lost worker was to run has no result, and nobody may take it for green.
    passed = xdist_project.report["facts"]["counts"].get("pass", 0)
    assert passed + xdist_project.report["facts"]["counts"].get("void", 0) == 6


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        # Each worker runs all tests: what passes in the other one excuses no crash.
        (("-n2", "--dist=each"), {1: 1}),
        # The plugin has the other worker run the test again. On a busy machine it sometimes does not:
        # then pytest itself ends with 1.
        (("-n2", "--reruns=1"), {0: 7, 1: 1}),
    ],
)
@pytest.mark.nightly
def test_a_worker_that_crashes_once_is_flaky_only_if_a_plugin_ran_its_test_again(
    xdist_project: TestProject, options: tuple[str, ...], codes: dict[int, int]
) -> None:
    xdist_project.put(
        "test_kill.py",
        """
        import os, signal
        from pathlib import Path

        def test_kill():
            try:
                Path(__file__).with_name("mark").mkdir()
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)
        """,
    )

    ran = xdist_project.doctor("--reruns", "0", "--fail-on-flaky", "--", *options)

    (suite,) = xdist_project.report["attempts"]
    own_code = int(suite["outcome"].removeprefix("exit code "))
    assert ran.code == codes[own_code], ran


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("test_broken.py", "import nothing_of_that_name\n", "cannot be collected"),
        ("nothing.py", "", "collected no test"),
        ("conftest.py", "import os\nos._exit(0)\n", "before it had collected"),
    ],
)
@pytest.mark.gate(1)
def test_what_cannot_be_collected_is_void(
    project: TestProject, name: str, text: str, word: str
) -> None:
    project.put(name, text)
    if name == "test_broken.py":
        project.put("test_ok.py", "def test_ok(): pass\n")

    ran = project.doctor()

    assert ran.code == 86, ran
    assert word in project.report["summary"]
    assert word in project.report["findings"][0]["summary"]


def test_a_refused_command_line_is_a_usage_error(project: TestProject) -> None:
    assert project.doctor("--", "--no-such-option").code == 2


@pytest.mark.parametrize(
    ("conftest", "code"),
    [
        ("def pytest_sessionfinish(session): session.exitstatus = 3", 1),
        ("def pytest_sessionfinish(session): session.testsfailed += 1; session.exitstatus = 1", 1),
        ("import atexit, os\natexit.register(os.abort)", 1),
        ("import pytest\ndef pytest_runtest_setup(item): pytest.exit('enough', returncode=0)", 86),
        ("import pytest\ndef pytest_runtest_teardown(item): pytest.exit('x', returncode=0)", 86),
    ],
)
@pytest.mark.gate(2)
def test_an_end_that_no_test_explains_is_not_green(
    project: TestProject, conftest: str, code: int
) -> None:
    project.put("conftest.py", conftest)
    project.put("test_ok.py", "def test_ok(): pass\n")

    assert project.doctor().code == code


def test_reruns_in_the_process_need_the_plugin(project: TestProject) -> None:
    project.put("test_ok.py", "def test_ok(): pass\n")

    ran = project.doctor("--rerun-in", "process")

    assert ran.code == 2
    assert "pytest-rerunfailures" in ran.err


@pytest.mark.nightly
def test_reruns_in_the_process_are_attempts(xdist_project: TestProject) -> None:
    xdist_project.put("test_once.py", ONCE)

    ran = xdist_project.doctor("--rerun-in", "process", "--fail-on-flaky", "--", "-p", "no:xdist")

    assert ran.code == 7, ran
    assert xdist_project.attempts("test_once.py::test_once") == ["suite failed", "suite passed"]
    (test,) = xdist_project.report["facts"]["tests"]
    outputs = [attempt["output"].splitlines()[-1] for attempt in test["attempts"]]
    assert outputs == ["seen: False", "seen: True"]


def test_the_base_tells_a_regression_and_new_tests_run_often(project: TestProject) -> None:
    make_repository(
        project.directory,
        {
            "pytest.ini": "[pytest]\n",
            "product.py": "VALUE = 1\n",
            "test_value.py": "import product\ndef test_value(): assert product.VALUE == 1\n"
            "def test_never(): assert False\n",
        },
    )
    commit(
        project.directory,
        {
            "product.py": "VALUE = 2\n",
            "test_new.py": "from pathlib import Path\ndef test_new():\n    file = Path('runs')\n"
            "    file.open('a').write('x')\n    assert file.stat().st_size != 2\n",
        },
    )

    ran = project.doctor("--baseline", "HEAD~1", "--new-tests", "3", "--reruns", "0")

    assert ran.code == 1, ran
    assert project.report["verdict"] == "regression"
    assert project.verdicts() == {
        "test_value.py::test_value": "regression",
        "test_value.py::test_never": "failed",
        "test_new.py::test_new": "flaky",
    }
    assert project.attempts("test_new.py::test_new") == ["suite passed", "new failed", "new passed"]


@pytest.mark.nightly
def test_a_base_that_loads_the_change_shows_nothing(project: TestProject) -> None:
    make_repository(
        project.directory,
        {
            "src/product.py": "VALUE = 1\n",
            "test_a.py": "import product\ndef test_a(): assert product.VALUE == 1\n",
        },
    )
    commit(project.directory, {"src/product.py": "VALUE = 2\n"})
    # As an editable install does that finds its files by a hook.
    project.put(
        "conftest.py",
        f"""
        import importlib.util, sys
        spec = importlib.util.spec_from_file_location("product", {str(project.directory / "src/product.py")!r})
        sys.modules["product"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["product"])
        """,
    )
    commit(project.directory, {"seen": ""})

    ran = project.doctor("--baseline", "HEAD~1", "--reruns", "0")

    assert ran.code == 1, ran
    assert project.verdicts() == {"test_a.py::test_a": "failed"}


@pytest.mark.parametrize(
    "body",
    [
        'raise OSError(28, "No space left on device", "/data/x")',
        'assert "ok" == "OSError: [Errno 28] No space left on device"',
        "raise ConnectionError(\"HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded\")",
        'raise RuntimeError("CUDA error: uncorrectable ECC error encountered")',
        'print("OSError: [Errno 28] No space left on device"); assert False',
    ],
)
@pytest.mark.gate(1)
def test_a_failed_test_is_failed_whatever_it_says(project: TestProject, body: str) -> None:
    project.put("test_says.py", f"def test_says(): {body}\n")

    ran = project.doctor("--reruns", "0")

    assert ran.code == 1, ran
    assert project.verdicts() == {"test_says.py::test_says": "failed"}


@needs_mounts
@pytest.mark.nightly
def test_a_test_that_a_full_disk_failed_is_infra_if_the_disk_was_full_before(
    project: TestProject,
) -> None:
    project.put(
        "test_disk.py",
        """
        def test_disk():
            with open("x", "ab", buffering=0) as file:
                while True: file.write(bytes(4096))
        """,
    )
    disk = project.directory / "disk"
    disk.mkdir()
    mount = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    begin = 'mount -t tmpfs -o size=1m none "$0" && cd "$0"'
    ends = {}
    for before, fills in (("empty", "true"), ("full", "head -c 2m /dev/zero > y")):
        script = f'{begin} && {{ {fills} 2> /dev/null || :; }} && exec "$@"'
        command = words("pytest", "--json", "--python", str(project.python), "--reruns", "0",
                        "--report-dir", str(project.directory / before),
                        "--", "-p", "no:cacheprovider", f"{project.directory}/test_disk.py")  # fmt: skip
        ran = subprocess.run([*mount, script, str(disk), *command], cwd=project.directory,
                             env=environment(), capture_output=True, timeout=120, check=False)  # fmt: skip
        ends[before] = ran.returncode

    assert ends == {"empty": 1, "full": 75}


def test_a_quarantined_test_runs_and_does_not_decide(project: TestProject) -> None:
    project.put("test_bad.py", "def test_bad(): assert False\ndef test_ok(): pass\n")
    project.put("ci-doctor-quarantine.toml", quarantine("test_bad.py::test_bad", "test_gone.py::*"))

    ran = project.doctor("--reruns", "0")

    assert ran.code == 0, ran
    assert project.verdicts() == {"test_bad.py::test_bad": "failed"}
    # An entry that matches no test holds none for long.
    assert project.rules() == [
        "test-run/quarantined",
        "test-run/quarantine-unused",
        "test-run/quarantine-long",
    ]
    project.doctor("--", "-k", "test_ok")
    assert project.rules() == ["test-run/quarantine-unused", "test-run/quarantine-left-out"]


def test_a_quarantine_that_cannot_be_read_is_a_usage_error(project: TestProject) -> None:
    project.put("ci-doctor-quarantine.toml", '[[quarantine]]\ntest = "a"\n')

    assert project.doctor().code == 2


def test_an_interrupted_run_reports_what_it_knows(project: TestProject) -> None:
    os.mkfifo(project.directory / "begun")
    project.put(
        "test_long.py",
        """
        import threading
        def test_ok(): pass
        def test_long():
            open("begun", "w").write("x")
            threading.Event().wait(600)
        """,
    )
    reader = os.open(project.directory / "begun", os.O_RDONLY | os.O_NONBLOCK)
    words = ("pytest", "--python", project.python, "--report-dir", project.reports)
    with begin(*words, cwd=project.directory) as process:
        assert select.select([reader], [], [], LIMIT_S)[0], "the test did not begin"
        os.close(reader)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT_S)

    assert process.returncode == 143
    assert project.report["verdict"] is None
    assert "SIGTERM" in project.report["error"]["message"]
    assert project.report["facts"]["counts"]["pass"] == 1


@pytest.mark.parametrize("question", ["--collect-only", "--version", "--setup-plan"])
@pytest.mark.gate(1)
def test_a_question_to_pytest_has_its_answer_its_status_and_no_verdict(
    project: TestProject, question: str
) -> None:
    project.put("test_a.py", "def test_a(): pass\n")

    ran = project.doctor("--", question)

    assert ran.code == 0
    assert project.report["verdict"] is None
    assert question in project.report["summary"]
    assert project.report["findings"] == []


@pytest.mark.nightly
def test_a_question_that_pytest_cannot_answer_ends_with_its_status(project: TestProject) -> None:
    project.put("test_a.py", "import nothing_of_this_name\n")

    ran = project.doctor("--", "--collect-only")

    assert ran.code == 2
    assert project.report["verdict"] is None


def test_the_command_of_a_finding_fails_as_the_test_did(project: TestProject) -> None:
    # Not collected but by this file, and not failing but by this plugin.
    project.put("other dir/own.ini", "[pytest]\npython_files = check_*.py\n")
    project.put("other dir/check_a.py", "import breaking\ndef test_a(): assert not breaking.SET\n")
    project.put("breaking.py", "SET = True\n")

    ran = project.doctor(
        "--reruns", "0", "--", "-c", "other dir/own.ini", "-p", "breaking", "other dir"
    )
    command = project.report["findings"][0]["remedy"]
    again = subprocess.run(
        command, shell=True, cwd=project.directory, capture_output=True, text=True, check=False
    )

    assert ran.code == 1
    assert again.returncode == 1, again.stdout + again.stderr
    assert "assert not True" in again.stdout


def test_tests_that_never_began_are_one_finding_and_never_a_pass(project: TestProject) -> None:
    project.put("conftest.py", "def pytest_runtestloop(session): return True\n")
    project.put("test_a.py", "".join(f"def test_{number}(): pass\n" for number in range(60)))

    ran = project.doctor()

    assert ran.code == 86
    assert project.report["verdict"] == "void"
    assert project.report["facts"]["counts"] == {"void": 60}
    assert [finding["rule"] for finding in project.report["findings"]] == ["test-run/not-whole"]
    assert "60 of 60" in project.report["findings"][0]["summary"]
