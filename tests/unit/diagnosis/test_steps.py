# SPDX-License-Identifier: Apache-2.0
"""The steps of a job, read from logs in the formats of CI systems."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ci_doctor.diagnosis.log_story import LogStory, read_story
from ci_doctor.diagnosis.reading.open_log import open_log
from ci_doctor.diagnosis.rule_files import house_rules
from ci_doctor.diagnosis.rule_set import RuleSet

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
