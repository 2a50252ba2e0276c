# SPDX-License-Identifier: Apache-2.0
"""Kept logs: the frames that CI systems put around them, and the tables of their runs and jobs."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.diagnose.passing.frames import Frame, Line, Step, framed, framed_failure
from benchmarks.diagnose.passing.jobs import Job, read_places
from benchmarks.diagnose.passing.manifest import Row, as_json_lines, tempting_lines
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


def row(name: str) -> Row:
    return Row(
        name=name,
        rel=f"{name}.log",
        place="click",
        tool="pytest",
        command=("pytest -v",),
        exit_code=0,
        n_lines=3,
        n_tempting=1,
        hard=True,
        frame=Frame.GITHUB,
        ours=False,
        tolerates=False,
    )


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        "tests/test_x.py::test_error_message PASSED",
        "E   ZeroDivisionError: division by zero",
        "2 failed attempts",
        "bash: nvidia-smi: command not found",
        "curl: (7) Connection refused",
    ],
)
def test_a_line_with_a_word_of_failure_is_tempting(line: str) -> None:
    assert tempting_lines(f"fine\n{line}\nfine\n") == 1


@pytest.mark.parametrize("line", ["", "3 passed in 0.1 s", "mirrored", "skilled workers"])
def test_other_lines_are_not_tempting(line: str) -> None:
    assert tempting_lines(line) == 0


def test_rows_are_ordered_by_name_and_readable_as_json() -> None:
    lines = as_json_lines([row("b"), row("a")]).splitlines()

    assert [json.loads(line)["name"] for line in lines] == ["a", "b"]
    assert json.loads(lines[0])["frame"] == "github"
    assert json.loads(lines[0])["command"] == ["pytest -v"]


PROGRAMS = Path(__file__).parents[3] / "benchmarks" / "diagnose" / "passing" / "programs"


def test_the_tables_hold_more_than_a_hundred_jobs_of_a_dozen_tools() -> None:
    jobs = [job for place in read_places() for job in place.jobs]

    assert len(jobs) > 100
    assert len({job.tool for job in jobs}) > 12
    assert {job.frame for job in jobs} == set(Frame)


def test_programs_of_ours_named_in_a_job_are_there() -> None:
    missing = []
    for place in read_places():
        scripts = [place.setup, *(step for job in place.jobs for step in job.steps)]
        for word in " ".join(scripts).replace('\\"', "").replace('"', " ").split():
            name = word.removeprefix("$PROGRAMS/").removesuffix("/.")
            if word.startswith("$PROGRAMS/") and not (PROGRAMS / name).exists():
                missing.append(word)

    assert missing == []


def test_a_name_used_twice_is_refused(tmp_path: Path) -> None:
    place = '[[place]]\nname = "a"\njobs = [{ name = "twice", tool = "x", steps = ["true"] }]\n'
    (tmp_path / "jobs.toml").write_text(place + place.replace('"a"', '"b"'))

    with pytest.raises(ValueError, match="twice"):
        read_places(tmp_path)


def test_a_job_that_lets_a_command_fail_is_marked() -> None:
    assert Job(name="a", tool="x", steps=("false || true",)).tolerates
    assert not Job(name="a", tool="x", steps=("true", "a | b")).tolerates
