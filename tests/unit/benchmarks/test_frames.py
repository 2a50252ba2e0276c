"""Logs in the frames of CI systems."""

import re

import pytest

from benchmarks.diagnose.passing.frames import Frame, Line, Step, framed, framed_failure
from benchmarks.diagnose.passing.noise import read_noise
from benchmarks.diagnose.passing.whole_jobs import failed_job

START = 1_700_000_000.25
STEPS = (
    Step("pip install .", START, START + 2, [Line(START + 1, "Successfully installed")]),
    Step(
        "pytest -v\ndate",
        START + 2,
        START + 5,
        [Line(START + 3.5, "1 passed"), Line(START + 4, "Tuesday")],
    ),
)
PRINTED = ["Successfully installed", "1 passed", "Tuesday"]


@pytest.mark.parametrize("frame", list(Frame))
def test_every_frame_keeps_all_lines_in_order(frame: Frame) -> None:
    lines = framed(frame, STEPS).split("\n")

    kept = [text for line in lines for text in PRINTED if line.rstrip("\r").endswith(text)]
    assert kept == PRINTED


@pytest.mark.parametrize("frame", [frame for frame in Frame if frame is not Frame.PLAIN])
def test_every_frame_shows_the_commands(frame: Frame) -> None:
    text = framed(frame, STEPS)

    assert text.index("pip install .") < text.index("pytest -v")


def test_without_a_frame_only_the_output_is_there() -> None:
    assert framed(Frame.PLAIN, STEPS) == "Successfully installed\n1 passed\nTuesday\n"


def test_each_line_of_github_has_a_stamp_of_seven_digits() -> None:
    lines = framed(Frame.GITHUB, STEPS).removeprefix("\ufeff").splitlines()

    stamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z ")
    assert [line for line in lines if not stamp.match(line)] == []
    assert "2023-11-14T22:13:23.7500000Z 1 passed" in lines


def test_each_group_of_github_is_closed() -> None:
    text = framed(Frame.GITHUB, STEPS)

    assert text.count("##[group]") == text.count("##[endgroup]")


def test_travis_says_which_command_ended_well_and_closes_its_folds() -> None:
    text = framed(Frame.TRAVIS, STEPS)

    assert 'The command "pytest -v" exited with 0.' in text
    assert text.endswith("\nDone. Your build exited with 0.\n")
    assert text.count("travis_fold:start:") == text.count("travis_fold:end:")
    assert "duration=3000000000" in text


def test_buildkite_stamps_lines_in_milliseconds() -> None:
    lines = framed(Frame.BUILDKITE, STEPS).split("\n")

    assert "\x1b_bk;t=1700000003750\x071 passed\r" in lines
    assert "\x1b_bk;t=1700000000250\x07--- pip install .\r" in lines


def test_sections_of_gitlab_are_closed_by_success() -> None:
    text = framed(Frame.GITLAB, STEPS)

    assert "section_start:1700000000:step_script\r\x1b[0K" in text
    assert "section_end:1700000005:step_script\r\x1b[0K" in text
    assert "Job succeeded" in text.splitlines()[-1]


def test_taskcluster_tells_the_duration() -> None:
    assert "exit code: 0 completed in 5.000 seconds" in framed(Frame.TASKCLUSTER, STEPS)


def test_jenkins_ends_with_success() -> None:
    assert framed(Frame.JENKINS, STEPS).endswith("\nFinished: SUCCESS\n")


@pytest.mark.parametrize("frame", [Frame.BUILDKITE, Frame.GITHUB, Frame.GITLAB])
def test_a_failed_job_says_where_the_output_of_its_last_step_begins(frame: Frame) -> None:
    failed = STEPS[1]._replace(status=3)

    failure = framed_failure(frame, [STEPS[0], failed], [STEPS[0]])

    lines = failure.text.split("\n")
    assert lines[failure.first].rstrip("\r").endswith("1 passed")
    assert re.search(r"(?:exit code|status) 3", failure.text)


def test_a_log_of_a_failure_is_the_same_in_its_frame_whenever_it_is_made() -> None:
    noise = read_noise(held_out=False)

    one = failed_job(Frame.GITLAB, "broken\nhere\n", "a/log", noise)

    assert one == failed_job(Frame.GITLAB, "broken\nhere\n", "a/log", noise)
    assert one.text.split("\n")[one.first : one.first + 2] == ["broken", "here"]
    assert one != failed_job(Frame.GITLAB, "broken\nhere\n", "another/log", noise)


def test_noise_for_measuring_is_no_noise_for_development() -> None:
    held_out = {block.lines for block in read_noise(held_out=True).before}

    assert held_out
    assert not held_out & {block.lines for block in read_noise(held_out=False).before}
