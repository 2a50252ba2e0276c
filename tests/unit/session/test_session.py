# SPDX-License-Identifier: Apache-2.0
""""""

import errno
import fcntl
import io
import json
import os
import sys
from pathlib import Path

import pytest

from ci_doctor.errors import PreparationError, UsageError
from ci_doctor.model.outcome import Finding, Outcome, Severity, Verdict
from ci_doctor.render import report_files
from ci_doctor.session.delivery import web_address
from ci_doctor.session.invocation import Invocation
from ci_doctor.session.printing import PrintedForm
from ci_doctor.session.report_directory import (
    ReportDirectory,
    lock_default,
    lock_free_below,
    lock_named,
    published_elsewhere,
)
from ci_doctor.session.session import Session

PASSED = Outcome(verdict=Verdict.PASS, summary="all the same")
VOID = Outcome(verdict=Verdict.VOID, summary="nothing was answered")


def a_session(*argv: str, directory: Path | None = None) -> Session:
    session = Session(Invocation.begin(argv or ("config", "show")))
    session.named_directory = directory
    return session


class Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, _text: str) -> int:
        raise OSError(28, "No space left on device")


class TestClaiming:
    def test_without_a_directory_there_is_none(self) -> None:
        assert a_session().claim() is None

    def test_the_named_one_comes_first(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CI_DOCTOR_REPORT_DIR", str(tmp_path / "root"))

        assert a_session(directory=tmp_path / "named").claim(tmp_path / "d") == tmp_path / "named"
        assert a_session("wait").claim(tmp_path / "d") == tmp_path / "root" / "wait"

    def test_a_mistyped_command_makes_no_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CI_DOCTOR_REPORT_DIR", str(tmp_path))

        assert a_session("../x").claim() is None


class TestFinishing:
    def test_writes_all_forms_and_returns_the_verdicts_code(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        session = a_session(directory=tmp_path)
        session.claim()

        assert session.finish(VOID) == 86
        files = {path.name for path in tmp_path.iterdir()}
        assert files == {"junit.xml", "report.json", "report.md"}
        out, err = capsys.readouterr()
        assert (out, "VOID" in err) == ("", True)
        assert err.endswith(f"exit code 86\nreport: {tmp_path}/report.json\n")

    @pytest.mark.parametrize(
        ("on_stdout", "text", "form"),
        [(True, "a diff\n", "text"), (False, "", "text"), (True, None, "json")],
    )
    def test_what_a_program_reads_has_no_line_about_the_report(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        on_stdout: bool,
        text: str | None,
        form: PrintedForm,
    ) -> None:
        session = a_session(directory=tmp_path)
        session.claim()
        session.form = form

        session.finish(PASSED, on_stdout=on_stdout, text=text)

        out, err = capsys.readouterr()
        assert ("report: " in out + err, out.startswith(text or "")) == (False, True)

    def test_a_report_that_could_not_be_written_is_not_named(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        session = a_session(directory=tmp_path)
        session.claim()
        (tmp_path / "report.json").mkdir()

        session.finish(PASSED)

        assert "report: " not in capsys.readouterr().err

    @pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FLAKY])
    def test_a_pass_beside_a_finding_of_severity_error_has_failed(
        self, verdict: Verdict, capsys: pytest.CaptureFixture[str]
    ) -> None:
        finding = Finding(rule="a/b", severity=Severity.ERROR, summary="s")

        code = a_session().finish(Outcome(verdict=verdict, summary="m", findings=(finding,)))

        assert (code, "FAILED" in capsys.readouterr().err) == (1, True)

    def test_json_goes_to_stdout_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        session = a_session()
        session.as_json = True

        session.finish(PASSED)

        out, err = capsys.readouterr()
        assert (json.loads(out)["schema"], err) == ("ci-doctor/report/2", "")

    def test_the_report_says_what_it_is_about(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        known = {
            "BUILDKITE_PIPELINE_SLUG": ("pipeline", "vllm"),
            "BUILDKITE_BUILD_NUMBER": ("build", 12),
            "BUILDKITE_STEP_KEY": ("step", "serving"),
            "BUILDKITE_PARALLEL_JOB": ("parallel_index", 3),
            "BUILDKITE_RETRY_COUNT": ("attempt", 1),
            "BUILDKITE_COMMIT": ("commit", "c" * 40),
            "BUILDKITE_BRANCH": ("branch", "main"),
            "BUILDKITE_AGENT_NAME": ("agent", "gpu-1"),
            "BUILDKITE_AGENT_META_DATA_QUEUE": ("queue", "h100"),
        }
        for name, (_, value) in known.items():
            monkeypatch.setenv(name, str(value))
        session = a_session()
        session.as_json = True

        session.finish(PASSED)

        about = json.loads(capsys.readouterr().out)["about"]
        about.pop("gpus", None)  # of this machine
        assert about == dict(known.values())

    @pytest.mark.parametrize(("outcome", "code"), [(PASSED, 75), (VOID, 86)])
    def test_a_directory_that_cannot_be_written_any_more_fails_what_had_passed(
        self, outcome: Outcome, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        session = a_session(directory=tmp_path / "r")
        session.claim()
        (tmp_path / "r").rmdir()
        (tmp_path / "r").write_text("")

        assert session.finish(outcome) == code
        assert "cannot write" in capsys.readouterr().err

    @pytest.mark.parametrize(("outcome", "code"), [(PASSED, 75), (VOID, 86)])
    def test_a_verdict_stands_if_the_terminals_disk_is_full(
        self, outcome: Outcome, code: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdout", Full())

        assert a_session().finish(outcome, on_stdout=True) == code

    def test_a_stream_that_was_closed_is_shown_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stderr", None)

        assert a_session().finish(PASSED) == 0

    def test_secrets_are_in_no_form(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("HF_TOKEN", "hunter2hunter2")
        session = a_session(directory=tmp_path)
        session.hide({"API_KEY": "swordfish1"})
        session.claim()

        session.finish(Outcome(verdict=None, summary="with hunter2hunter2 and swordfish1"))

        everything = capsys.readouterr().err
        for path in tmp_path.iterdir():
            everything += path.read_text()
        assert "hunter2hunter2" not in everything
        assert "swordfish1" not in everything

    def test_the_directory_is_free_for_the_next_run(self, tmp_path: Path) -> None:
        first = a_session(directory=tmp_path)
        first.claim()
        first.finish(PASSED)

        assert a_session(directory=tmp_path).claim() == tmp_path


class TestFailing:
    def test_the_report_keeps_the_findings(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        finding = Finding(rule="a/b", severity=Severity.ERROR, summary="s")
        session = a_session(directory=tmp_path)

        assert session.fail(PreparationError("m", hint="h", findings=(finding,))) == 1

        written = json.loads((tmp_path / "report.json").read_text())
        assert (written["verdict"], written["error"]["message"]) == ("failed", "m")
        assert [each["rule"] for each in written["findings"]] == ["a/b"]
        assert "hint: h" in capsys.readouterr().err

    @pytest.mark.parametrize("below", ["", "below"])
    def test_a_report_directory_that_cannot_be_is_no_second_error(
        self, below: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").write_text("")
        session = a_session(directory=Path(os.path.normpath(tmp_path / "file" / below)))

        assert session.fail(UsageError("what happened")) == 2
        assert "what happened" in capsys.readouterr().err

    def test_a_refused_claim_is_not_tried_again(self, tmp_path: Path) -> None:
        first, second = a_session(directory=tmp_path), a_session(directory=tmp_path)
        first.claim()
        with pytest.raises(UsageError) as caught:
            second.claim()
        first.finish(PASSED)

        second.fail(caught.value)

        assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "pass"

    def test_a_protected_directory_keeps_its_report_until_the_run_is_accepted(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "report.json").write_text("{}")
        refused = a_session(directory=tmp_path)
        refused.protect()
        refused.claim(clear=False)
        refused.fail(UsageError("cannot resume"))
        assert (tmp_path / "report.json").read_text() == "{}"

        accepted = a_session(directory=tmp_path)
        accepted.protect()
        accepted.claim(clear=False)
        accepted.accept()
        assert not (tmp_path / "report.json").exists()
        accepted.finish(PASSED)
        assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "pass"


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("git@github.com:vllm-project/vllm.git", "https://github.com/vllm-project/vllm"),
        ("ssh://git@github.com:22/o/r.git", "https://github.com/o/r"),
        ("git://host.org/o/r", "https://host.org/o/r"),
        ("https://github.com/o/r.git/", "https://github.com/o/r"),
        ("https://user:token@gitlab.org/g/s/r.git", "https://gitlab.org/g/s/r"),
        ("http://host.org:8080/o/r", "http://host.org:8080/o/r"),
        ("/srv/git/r.git", None),
        ("../r", None),
        ("file:///srv/r.git", None),
        ("javascript:alert(1)", None),
        ("https://host.org/o/r?x=<b>", "https://host.org/o/r"),
        ("https://host.org/", None),
        ("https://[", None),
        ("", None),
    ],
)
def test_a_remote_leads_to_its_pages_or_nowhere(remote: str, address: str | None) -> None:
    assert web_address(remote) == address


def test_one_at_a_time_and_no_descriptor_stays(tmp_path: Path) -> None:
    first = ReportDirectory.lock(tmp_path)
    assert first is not None
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    assert ReportDirectory.lock(tmp_path) is None

    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    first.release()
    first.release()
    assert ReportDirectory.lock(tmp_path) is not None


def test_where_nothing_can_be_locked_a_report_is_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_locks(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", without_locks)

    assert ReportDirectory.lock(tmp_path) is not None
    assert ReportDirectory.lock(tmp_path) is not None


def test_makes_the_directory_and_leaves_no_file_of_its_own(tmp_path: Path) -> None:
    lock_named(tmp_path / "a" / "b").release()

    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_clearing_removes_an_earlier_report_and_nothing_else(tmp_path: Path) -> None:
    for name in (*report_files(), "notes.txt"):
        (tmp_path / name).write_text("old")

    lock_named(tmp_path).clear()

    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_directory_that_another_run_holds_is_refused_until_it_is_released(tmp_path: Path) -> None:
    first = lock_named(tmp_path)

    with pytest.raises(UsageError, match="another run of ci-doctor is writing to") as caught:
        lock_named(tmp_path)
    assert caught.value.hint

    first.release()
    lock_named(tmp_path).release()


def test_below_a_root_each_run_gets_a_fresh_folder(tmp_path: Path) -> None:
    first = lock_free_below(tmp_path, "run")  # held, and without a report yet
    second = lock_free_below(tmp_path, "run")
    (second.path / "report.json").write_text("{}")
    second.release()
    third = lock_free_below(tmp_path, "run")

    assert [each.path.name for each in (first, second, third)] == ["run", "run-2", "run-3"]


def test_what_cannot_be_written_is_refused_early(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError) as caught:
            lock_named(path)
        assert caught.value.hint


def test_a_report_that_cannot_be_removed_is_refused_early(tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()

    with pytest.raises(UsageError, match="cannot empty"):
        lock_named(tmp_path).clear()


def test_a_report_that_arrives_while_the_lock_is_taken_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = ReportDirectory.lock

    def lock_after_the_other(path: Path) -> ReportDirectory | None:
        directory = lock(path)
        if path.name == "wait":
            (path / "report.json").write_text("{}")
        return directory

    monkeypatch.setattr(ReportDirectory, "lock", lock_after_the_other)

    assert lock_free_below(tmp_path, "wait").path.name == "wait-2"
    assert (tmp_path / "wait" / "report.json").exists()


def test_a_default_directory_in_use_is_left_for_the_next(tmp_path: Path) -> None:
    outer = lock_default(tmp_path / "ci-doctor-report")
    inner = lock_default(tmp_path / "ci-doctor-report")

    assert [each.path.name for each in (outer, inner)] == [
        "ci-doctor-report",
        "ci-doctor-report-2",
    ]


def test_a_file_above_the_directory_is_an_error_and_no_endless_search(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(UsageError, match=r"cannot use .*Not a directory"):
        lock_free_below(tmp_path / "file" / "reports", "setup-env")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CI_DOCTOR_REPORT_DIR", str(tmp_path))
    return tmp_path


def test_later_calls_of_a_job_know_what_earlier_ones_published(root: Path) -> None:
    one, two = root / "one", root / "two"

    assert published_elsewhere("j", [one]) == []
    assert published_elsewhere("j", [two]) == [one]
    assert published_elsewhere("j", [one, two]) == []
    assert published_elsewhere("j", []) == [one, two]


def test_another_job_in_the_same_directory_knows_nothing_of_it(root: Path) -> None:
    published_elsewhere("j", [root / "one"])

    assert published_elsewhere("k", []) == []


@pytest.mark.parametrize("text", ["", "[1]", '{"job": "j"}', '{"job": "j", "folders": {}}'])
def test_what_is_no_list_of_folders_names_none(text: str, root: Path) -> None:
    (root / ".folders.json").write_text(text)

    assert published_elsewhere("j", [root / "one"]) == []


def test_without_a_report_directory_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI_DOCTOR_REPORT_DIR", raising=False)

    assert published_elsewhere("j", [tmp_path]) == []
    assert published_elsewhere("j", []) == []


def test_a_directory_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CI_DOCTOR_REPORT_DIR", str(tmp_path / "file" / "below"))

    assert published_elsewhere("j", [tmp_path]) == []
