# SPDX-License-Identifier: Apache-2.0
"""The commands of the hooks after a job's command, without their hooks: what they print, and what they leave."""

import json
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_doctor import cli
from ci_doctor.commands import plugin_command
from ci_doctor.errors import Terminated
from ci_doctor.model.facts.build import JOB_FILE
from ci_doctor.model.outcome import Verdict
from ci_doctor.render import json as report_json
from tests.support.builders import a_report

OUTAGE = (
    "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.pythonhosted.org', port=443): "
    "Read timed out.\n"
)
ASSERTION = "E       assert 41 == 42\ntests/test_a.py:3: AssertionError\n"
OPTIONS = {"setup-env": False, "diagnose": ["build_*.log"], "exit-codes": True}
TO_75 = "export BUILDKITE_COMMAND_EXIT_STATUS=75\n"


class Hooks:
    """The hooks of one job in `checkout`, whose command ended with `status`."""

    def __init__(
        self, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.checkout = checkout
        self.root = checkout / "ci-doctor-report" / "0190"
        self.patch = monkeypatch
        self.capsys = capsys
        for name in list(os.environ):
            if name.startswith(("BUILDKITE", "CI_DOCTOR", "GITHUB", "GITLAB")):
                monkeypatch.delenv(name)
        monkeypatch.chdir(checkout)
        self.set(
            BUILDKITE="true",
            BUILDKITE_JOB_ID="0190",
            BUILDKITE_BUILD_CHECKOUT_PATH=str(checkout),
            PATH=str(checkout / "no-agent"),
            CI_DOCTOR_REPORT_DIR="ci-doctor-report",
        )
        self.configure(OPTIONS)

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self.patch.setenv(name, value)

    def configure(self, options: Mapping[str, object]) -> None:
        self.set(BUILDKITE_PLUGIN_CONFIGURATION=json.dumps(options))

    def run(self, hook: str) -> tuple[str, str]:
        """What the hook's command prints on stdout and on stderr; it always ends with 0."""
        assert cli.main(["plugin", hook]) == 0
        printed = self.capsys.readouterr()
        return printed.out, printed.err

    def after(self, status: int, **files: str) -> tuple[str, str]:
        """A command ends with `status`, and leaves `files`. Then it prints nothing, and the agent keeps the job's log."""
        self.run("pre-command")
        if files:
            job_log = self.checkout / "job-log"
            job_log.write_text(
                f"~~~ Running commands\n$ bash x\n🚨 Error: The command exited with status {status}\n"
            )
            self.set(BUILDKITE_JOB_LOG_TMPFILE=str(job_log))
        for name, content in files.items():
            (self.checkout / f"{name}.log").write_text(content)
        self.set(BUILDKITE_COMMAND_EXIT_STATUS=str(status))
        return self.run("post-command")

    def record(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.root / JOB_FILE).read_bytes())
        return content


@pytest.fixture
def hooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Hooks:
    return Hooks(tmp_path, monkeypatch, capsys)


def test_stdout_holds_the_export_alone(hooks: Hooks) -> None:
    out, err = hooks.after(1, build_1=OUTAGE)

    assert out == TO_75
    assert "build_1.log:1" in err
    assert "the command's status 1 becomes 75" in err


def test_without_the_option_nothing_is_exported(hooks: Hooks) -> None:
    hooks.configure({**OPTIONS, "exit-codes": False})

    out, err = hooks.after(1, build_1=OUTAGE)

    assert out == ""
    assert "build_1.log:1" in err


def test_a_command_that_passed_is_nobodys_business(hooks: Hooks) -> None:
    assert hooks.after(0, build_1=OUTAGE) == ("", "")
    hooks.run("pre-exit")
    assert hooks.record()["exit_status"] == 0


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[exit-codes]\ninfra = 1\n", "infra and regression share the code 1"),
        ("[exit-codes\n", "ci-doctor.toml:1"),
        ('[diagnose]\nrules = ["gone.toml"]\n', "gone.toml"),
    ],
)
def test_a_broken_configuration_maps_nothing_and_says_so(
    toml: str, words: str, hooks: Hooks
) -> None:
    (hooks.checkout / "ci-doctor.toml").write_text(toml)

    out, err = hooks.after(1, build_1=OUTAGE)

    assert out == ""
    assert words in err
    assert "no status is changed" in err
    assert "build_1.log:1" in err


def test_a_repository_has_its_own_codes_and_its_own_rules(hooks: Hooks) -> None:
    (hooks.checkout / "ours.toml").write_text("[exit-codes]\ninfra = 255\n")
    hooks.configure({**OPTIONS, "config": "ours.toml"})

    out, _ = hooks.after(1, build_1=OUTAGE)

    assert out == "export BUILDKITE_COMMAND_EXIT_STATUS=255\n"


def test_a_report_of_ci_doctor_that_explains_the_status_keeps_it(hooks: Hooks) -> None:
    folder = hooks.root / "launch"
    folder.mkdir(parents=True)
    report = a_report(Verdict.FAILED, command="launch")
    (folder / "report.json").write_text(report_json.render(report))

    out, err = hooks.after(1, build_1=OUTAGE)

    assert out == ""
    assert "`ci-doctor launch` ended with it" in err
    # Nothing is named: the report has said it all.
    hooks.configure({"exit-codes": True})
    assert "how" not in hooks.run("post-command")[1]


def test_logs_of_an_earlier_job_are_named_and_not_read(hooks: Hooks) -> None:
    old = hooks.checkout / "build_0.log"
    old.write_text(OUTAGE)
    os.utime(old, (1_700_000_000, 1_700_000_000))

    out, err = hooks.after(1)

    assert out == ""
    assert "build_0.log: left by an earlier job, and not read" in err
    hooks.run("pre-exit")
    assert hooks.record()["cause"] is None


def test_hooks_in_another_container_than_the_first_know_no_beginning(hooks: Hooks) -> None:
    (hooks.checkout / "build_1.log").write_text(OUTAGE)
    hooks.set(BUILDKITE_COMMAND_EXIT_STATUS="1")

    out, err = hooks.run("post-command")

    assert out == ""
    assert "perhaps older than this job: build_1.log" in err
    hooks.run("pre-exit")
    assert hooks.record()["began_at"] is None


def test_a_job_without_logs_says_once_how_to_give_them(hooks: Hooks) -> None:
    hooks.configure({"setup-env": False})

    _, err = hooks.after(1)
    _, again = hooks.run("post-command")

    assert err.count("\n") == 1
    assert "name its logs by the option `diagnose:" in err
    assert again == ""


@pytest.mark.parametrize(
    ("variable", "is_diagnosed"),
    [("BUILDKITE_JOB_CANCELLED", False), ("BUILDKITE_JOB_TIMED_OUT", True)],
)
def test_a_job_that_was_ended_from_outside_keeps_its_status(
    variable: str, is_diagnosed: bool, hooks: Hooks
) -> None:
    hooks.set(**{variable: "true"})

    out, err = hooks.after(1, build_1=OUTAGE)

    assert out == ""
    assert ("build_1.log:1" in err) is is_diagnosed
    hooks.run("pre-exit")
    assert hooks.record()["verdict"] == "error"


def test_the_same_options_diagnose_once_and_other_logs_add_their_own(hooks: Hooks) -> None:
    assert hooks.after(1, build_1=OUTAGE, test=ASSERTION)[0] == TO_75
    hooks.set(BUILDKITE_COMMAND_EXIT_STATUS="75")
    out, err = hooks.run("post-command")
    assert (out, "What to do" in err) == ("", False)

    hooks.configure({**OPTIONS, "diagnose": ["test.log"]})
    out, err = hooks.run("post-command")

    assert out == "export BUILDKITE_COMMAND_EXIT_STATUS=1\n"
    assert "AssertionError" in err
    hooks.set(BUILDKITE_COMMAND_EXIT_STATUS="1")
    hooks.run("pre-exit")
    assert hooks.record()["command_status"] == 1
    assert hooks.record()["reports"] == ["diagnose", "diagnose-2"]
    assert hooks.record()["verdict"] == "failed"


def test_an_assertion_of_the_first_hook_stands_above_an_outage_of_the_second(
    hooks: Hooks,
) -> None:
    hooks.configure({**OPTIONS, "diagnose": ["test.log"]})
    assert hooks.after(1, build_1=OUTAGE, test=ASSERTION)[0] == ""

    hooks.configure(OPTIONS)

    assert hooks.run("post-command")[0] == ""


def test_a_directory_that_cannot_be_written_costs_the_files_alone(hooks: Hooks) -> None:
    (hooks.checkout / "file").write_text("in the way")
    hooks.run("pre-command")
    hooks.configure({**OPTIONS, "report-dir": "file/reports"})
    (hooks.checkout / "build_1.log").write_text(OUTAGE)
    hooks.set(BUILDKITE_COMMAND_EXIT_STATUS="1")

    out, err = hooks.run("post-command")

    assert out == ""
    assert "build_1.log:1" in err
    assert "the diagnosis is printed alone" in err
    assert "the report of the build lacks this job" in hooks.run("pre-exit")[1]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Terminated(), "terminated (SIGTERM)"),
        (KeyboardInterrupt(), "interrupted (SIGINT)"),
        (ValueError("3 heads"), "a bug in ci-doctor: ValueError: 3 heads"),
        (MemoryError(), "no memory is left"),
        (SystemExit(3), "a bug in ci-doctor: SystemExit: 3"),
        (OSError(28, "No space left on device"), "a disk is full"),
    ],
)
def test_whatever_breaks_is_a_line_and_changes_nothing(
    error: BaseException, words: str, hooks: Hooks
) -> None:
    def broken(*_: object) -> None:
        raise error

    hooks.patch.setattr(plugin_command, "read_codes", broken)
    hooks.patch.setattr(plugin_command, "record_of", broken)

    out, err = hooks.after(1, build_1=OUTAGE)
    _, at_end = hooks.run("pre-exit")

    assert out == ""
    assert words in err
    assert "the command's status stays as it is" in err
    assert words in at_end


@pytest.mark.parametrize("hook", ["post-command", "pre-exit"])
def test_work_that_hangs_is_given_up(hook: str, hooks: Hooks) -> None:
    def hang(*_: object) -> None:
        threading.Event().wait()

    hooks.patch.setattr(plugin_command, "read_codes", hang)
    hooks.patch.setattr(plugin_command, "record_of", hang)
    hooks.patch.setattr("ci_doctor.commands.plugin._EXPLAIN_S", 0.05)
    hooks.patch.setattr("ci_doctor.commands.plugin._PUBLISH_S", 0.05)
    hooks.set(BUILDKITE_COMMAND_EXIT_STATUS="1")

    out, err = hooks.run(hook)

    assert out == ""
    assert "it took more than 0.05 s" in err
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_secret_of_the_job_stands_in_no_file(hooks: Hooks) -> None:
    secret = "s3cr3t-of-the-job-42"
    log = hooks.checkout / "job_log"
    log.write_text(
        f"~~~ Running commands\n$ bash x\n{secret} {OUTAGE}"
        "🚨 Error: The command exited with status 1\n~~~ Running plugin x post-command hook\n"
    )
    hooks.set(MY_TOKEN=secret, BUILDKITE_JOB_LOG_TMPFILE=str(log), BUILDKITE_COMMAND=secret)

    out, err = hooks.after(1)
    hooks.run("pre-exit")

    assert out == TO_75
    assert secret not in err
    files = [each for each in hooks.root.rglob("*") if each.is_file()]
    assert {each.name for each in files} >= {JOB_FILE, "output.log", "report.json"}
    for each in files:
        assert secret.encode() not in each.read_bytes(), each


def test_a_record_is_written_for_a_job_that_never_came_to_its_command(hooks: Hooks) -> None:
    hooks.set(BUILDKITE_LAST_HOOK_EXIT_STATUS="4", BUILDKITE_RETRY_COUNT="1")

    hooks.run("pre-exit")

    kept = hooks.record()
    assert (kept["exit_status"], kept["verdict"]) == (4, "failed")
    assert kept["about"]["attempt"] == 1
    assert kept["summary"] == "a hook ended with status 4; no report names a cause"


def test_a_failure_that_is_explained_goes_into_the_history(hooks: Hooks, tmp_path: Path) -> None:
    hooks.set(CI_DOCTOR_HISTORY_DATABASE=str(tmp_path / "h.sqlite"))

    out, err = hooks.after(1, build_a=OUTAGE)

    assert out == TO_75
    assert "not seen before in this history" in err
    assert (tmp_path / "h.sqlite").exists()
