"""The tables of jobs whose logs are kept."""

from pathlib import Path

import pytest

from benchmarks.diagnose.passing.frames import Frame
from benchmarks.diagnose.passing.jobs import Job, read_places

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
