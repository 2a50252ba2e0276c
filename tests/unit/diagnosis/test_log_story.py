# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.diagnosis.log_rules import LogRule, Role, RuleSet, house_rules
from ci_doctor.diagnosis.log_story import (
    LogStory,
    in_passed_run,
    outside_of_runs,
    passed_runs,
    quiet_lines,
    read_story,
    sounds_like_success,
)
from ci_doctor.diagnosis.log_text import CleanLine, TextLine
from ci_doctor.diagnosis.open_log import open_log
from ci_doctor.diagnosis.scan import Hit
from tests.support.diagnoses import diagnosed

ReadLog = Callable[..., LogStory]
RULES = RuleSet(house_rules())


@pytest.fixture
def read(tmp_path: Path) -> ReadLog:
    def story(*lines: str) -> LogStory:
        path = tmp_path / "job.log"
        path.write_text("\n".join(lines) + "\n")
        with open_log(str(path)) as log:
            return read_story(log, 0, RULES)

    return story


def spans(story: LogStory, failed: bool = True) -> list[tuple[int, int]]:
    return [(step.first, step.end.number) for step in story.steps if step.failed is failed]


def travis_begin(command: str) -> str:
    return f"travis_time:start:0a1b2c3d\r\x1b[0K$ {command}"


def test_a_step_of_travis_begins_with_its_command(read: ReadLog) -> None:
    story = read(
        travis_begin("make"),
        "built",
        'The command "make" exited with 0.',
        travis_begin("make test"),
        "broken",
        'The command "make test" exited with 2.',
        "Done. Your build exited with 1.",
    )
    assert spans(story) == [(4, 6)]
    assert spans(story, failed=False) == [(1, 3)]


def test_a_begin_mark_that_a_program_prints_does_not_cut_its_step(read: ReadLog) -> None:
    story = read(
        travis_begin("./test"),
        "broken",
        travis_begin("inner"),
        'The command "./test" exited with 1.',
    )
    assert spans(story) == [(1, 4)]


def test_a_job_of_travis_without_a_failed_command_fails_in_its_last_step(read: ReadLog) -> None:
    story = read(travis_begin("a"), travis_begin("b"), "broken", "Done. Your build exited with 1.")
    assert spans(story) == [(2, 4)]


def test_a_step_of_github_without_an_error_ended_well(read: ReadLog) -> None:
    story = read(
        "2026-01-02T03:04:05.1Z ##[group]Run actions/checkout@v4",
        "2026-01-02T03:04:05.1Z fatal: unable to access 'https://a.b/c.git/': x",
        "2026-01-02T03:04:05.1Z ##[group]Run make",
        "2026-01-02T03:04:05.1Z broken",
        "2026-01-02T03:04:05.1Z ##[error]Process completed with exit code 2.",
        "2026-01-02T03:04:05.1Z Post job cleanup.",
    )
    assert spans(story) == [(3, 5)]
    assert (1, 3) in spans(story, failed=False)


def test_an_annotation_of_github_is_an_error_within_its_step(read: ReadLog) -> None:
    story = read("##[group]Run ./publish", "words", "##[error]no token", "Post job cleanup.")
    assert spans(story) == [(1, 3)]


def test_a_job_that_passed_has_no_failed_step(read: ReadLog) -> None:
    story = read("Build step 'A' marked build as failure", "again", "Finished: SUCCESS")
    assert spans(story) == []
    assert all(candidate.in_passed_step for candidate in story.candidates)


def test_hooks_after_the_commands_of_buildkite_say_that_they_passed(read: ReadLog) -> None:
    story = read(
        "~~~ Running commands",
        "ERROR: expected",
        "\x1b_bk;t=1700000000000\x07~~~ Running global pre-exit hook",
    )
    assert spans(story, failed=False) == [(1, 3)]


def test_the_last_words_of_a_failed_step_are_a_candidate(read: ReadLog) -> None:
    story = read(
        travis_begin("./check"),
        "the sky is green",
        "",
        "make: *** [check] Error 1",
        'The command "./check" exited with 2.',
    )
    last = [each for each in story.candidates if each.rule.id == "generic/last-output"]
    assert [each.line.number for each in last] == [2]


def test_a_job_that_a_program_calls_passed_can_fail_later(read: ReadLog) -> None:
    story = read(
        "Started by user x",
        "Finished: SUCCESS",
        "OSError: [Errno 28] No space left on device",
        "Finished: FAILURE",
    )
    assert spans(story)
    assert not story.has_ended_well
    assert not any(each.in_passed_step for each in story.candidates)


def test_a_job_passed_with_all_lines_above_the_last_report_of_it(read: ReadLog) -> None:
    story = read(
        "Finished: SUCCESS", "OSError: [Errno 28] No space left on device", "Job succeeded"
    )
    assert spans(story, failed=False) == [(1, 3)]
    assert story.has_ended_well


def test_what_gitlab_does_after_the_script_did_not_fail_the_job(read: ReadLog) -> None:
    story = read(
        'section_start:1:step_script\r\x1b[0KExecuting "step_script" stage of the job script',
        "$ make test",
        "tests/test_a.py:3: AssertionError",
        "section_end:2:step_script\r\x1b[0Ksection_start:2:after_script\r\x1b[0KRunning after_script",
        "Error response from daemon: No such container: db",
        "section_start:3:upload_artifacts_on_failure\r\x1b[0KUploading artifacts for failed job",
        "ERROR: No files to upload",
        "section_start:4:cleanup_file_variables\r\x1b[0KCleaning up project directory and file based variables",
        "ERROR: Job failed: exit code 1",
    )
    assert spans(story) == [(1, 4), (9, 9)]
    assert spans(story, failed=False) == [(4, 8)]


def test_a_machine_that_gitlab_lost_is_named_where_the_job_ends(read: ReadLog) -> None:
    story = read(
        'Executing "step_script" stage of the job script',
        "building",
        "Cleaning up project directory and file based variables",
        "ERROR: Job failed (system failure): pods not found",
    )
    lost = next(each for each in story.candidates if each.rule.id == "gitlab/system-failure")
    assert lost.in_failed_step
    assert not lost.in_passed_step


BEGIN, FAILED, PASSED, STEP_FAILED = range(4)
RULES_OF_PASSED_RUNS = RuleSet(
    [
        LogRule(id="runner/begins", role=Role.RUN_BEGIN, literals=("x",), regex="x"),
        LogRule(id="runner/failed", role=Role.RUN_FAILED, literals=("x",), regex="x"),
        LogRule(id="runner/passed", role=Role.RUN_PASSED, literals=("x",), regex="x"),
        LogRule(id="job/step-failed", role=Role.END, literals=("x",), regex="x"),
    ]
)


def hit(rule: int, line: int, test: str | None = None) -> Hit:
    fields = {"test": test} if test else {}
    return Hit(
        rule=RULES_OF_PASSED_RUNS.rules[rule],
        line=TextLine(line, line * 10, b"x"),
        clean=CleanLine(text="x", message="x"),
        fields=fields,
    )


def taken_back(*hits: Hit, family: str = "another") -> list[int]:
    """Of lines 1 to 9 those in which a hit of `family` is taken back."""
    runs = passed_runs(hits)
    return [line for line in range(1, 10) if in_passed_run(runs, line, family)]


@pytest.mark.parametrize(
    ("hits", "lines"),
    [
        # A session that passed takes back everything in it, and one that failed nothing.
        ([hit(BEGIN, 3), hit(PASSED, 6)], [3, 4, 5, 6]),
        ([hit(BEGIN, 3), hit(FAILED, 6)], []),
        # Nor does it take back the one before it, with an end or without.
        ([hit(BEGIN, 1), hit(FAILED, 3), hit(BEGIN, 5), hit(PASSED, 7)], [5, 6, 7]),
        ([hit(BEGIN, 1), hit(BEGIN, 5), hit(PASSED, 7)], [5, 6, 7]),
        # It takes back those that its tests ran.
        ([hit(BEGIN, 1), hit(BEGIN, 3), hit(FAILED, 4), hit(PASSED, 7)], [1, 2, 3, 4, 5, 6, 7]),
        # A test takes back its own lines only, and none if its begin is unknown.
        ([hit(BEGIN, 1, "fails"), hit(BEGIN, 4, "passes"), hit(PASSED, 6, "passes")], [4, 5, 6]),
        ([hit(BEGIN, 1, "fails"), hit(PASSED, 6, "passes")], []),
        # The end of a session does not take back a test that did not pass.
        ([hit(BEGIN, 1, "fails"), hit(PASSED, 6)], []),
    ],
)
def test_what_passed_takes_back_its_own_lines(hits: list[Hit], lines: list[int]) -> None:
    assert taken_back(*hits) == lines


def test_a_run_without_a_begin_takes_back_hits_of_its_own_runner_up_to_the_one_before() -> None:
    assert taken_back(hit(PASSED, 4)) == []
    assert taken_back(hit(PASSED, 4), family="runner") == [1, 2, 3, 4]
    assert taken_back(hit(FAILED, 3), hit(PASSED, 6), family="runner") == [4, 5, 6]
    assert taken_back(hit(PASSED, 6, "passes"), family="runner") == []


def test_marks_that_a_passed_session_prints_are_no_marks_of_the_job() -> None:
    session = (hit(BEGIN, 3), hit(STEP_FAILED, 4), hit(PASSED, 6))
    later = hit(STEP_FAILED, 8)

    outside = outside_of_runs((*session, later), passed_runs(session))

    assert [each.line.number for each in outside] == [3, 6, 8]


def test_marks_before_a_run_whose_begin_is_unknown_stay() -> None:
    marks = (hit(STEP_FAILED, 2), hit(PASSED, 6))

    outside = outside_of_runs(marks, passed_runs(marks))

    assert [each.line.number for each in outside] == [2, 6]


STAMP = "2026-11-22T14:04:08.1234567Z "
STEP = f"{STAMP}##[group]Run pytest\n{STAMP}OSError: [Errno 98] Address already in use\n"


@pytest.mark.parametrize(
    ("end", "ended_well"),
    [
        ("", False),
        (STAMP[:14], False),
        (f"{STAMP}waiting for the server", False),
        (f"{STAMP}Post job cleanup.\n", True),
    ],
)
def test_a_log_that_is_cut_before_the_clean_up_of_its_job_does_not_end_well(
    tmp_path: Path, end: str, ended_well: bool
) -> None:
    diagnosis = diagnosed(tmp_path, STEP + end)
    rule = diagnosis.cause and diagnosis.cause.rule
    assert (diagnosis.ended_well, rule) == (ended_well, None if ended_well else "port/in-use")


@pytest.mark.parametrize(("end", "is_named"), [("Val", False), ("ValueError: bad", True)])
def test_a_name_that_is_cut_is_no_exception(tmp_path: Path, end: str, is_named: bool) -> None:
    frame = '  File "/w/a.py", line 3, in f\n    g()\n'
    text = f"Traceback (most recent call last):\n{frame}{end}"
    assert (diagnosed(tmp_path, text).cause is not None) is is_named


def test_words_of_a_tool_after_the_report_of_a_passed_job_change_nothing(tmp_path: Path) -> None:
    printed = "Build step 'make' marked build as failure\n"
    text = f"{printed}Finished: SUCCESS\nSuccessfully installed wheel-0.45\n"
    assert diagnosed(tmp_path, text).ended_well


@pytest.mark.parametrize(
    ("texts", "is_success"),
    [
        (["3 passed, 0 failed"], True),
        (["Errors: 0", "done in 3 s"], True),
        (["build finished", "", "----"], True),
        (["no problems found, bye"], True),
        # Only the last lines count.
        (["error: it broke", *["working"] * 20, "all done"], True),
        ([], False),
        (["", "---"], False),
        (["3 passed, 1 failed"], False),
        (["all tests passed", "error: upload refused"], False),
        (["loading the model"], False),
        (["done, exit status 2"], False),
    ],
)
def test_last_lines_sound_like_success_only_with_words_of_it_and_none_of_failure(
    texts: list[str], is_success: bool
) -> None:
    assert sounds_like_success(texts) is is_success


def test_lines_at_the_end_that_speak_of_no_failure_are_counted() -> None:
    assert quiet_lines(["error: a", "building", "---", "data"]) == 2
    assert quiet_lines(["done", "error: a"]) == 0
