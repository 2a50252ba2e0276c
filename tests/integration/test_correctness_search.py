# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness localise` and `bisect` against real servers and real repositories."""

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.buildkite.fan_out import Origin, sealed
from tests.support import stand_in_agent
from tests.support.cli import BARE, Ran, begin, doctor, inside, words
from tests.support.git_repository import git, make_repository
from tests.support.report_schema import checked_report
from tests.support.stand_in_build import LOST, Fate, StandInBuild

pytestmark = pytest.mark.integration

SERVER = Path(__file__).parents[1] / "support" / "programs" / "serve_variant.py"
LIMIT_S = 300.0  # guards against hanging only


def server(*traits: str) -> str:
    return f"{shlex.join([*BARE, str(SERVER)])} {{port}} {{start}} {' '.join(traits)}"


def ask(directory: Path) -> None:
    lines = [
        json.dumps({"id": f"r{number}", "body": {"prompt": f"p{number}", "temperature": 0}})
        for number in range(3)
    ]
    (directory / "requests.jsonl").write_text("\n".join(lines) + "\n")


def report(directory: Path) -> dict[str, Any]:
    return checked_report((directory / "out" / "report.json").read_text())


def facts(directory: Path) -> dict[str, Any]:
    made: dict[str, Any] = report(directory)["facts"]
    return made


COMMON = ("--requests", "requests.jsonl", "--passes", "1", "--report-dir", "out")


def localise(directory: Path, traits: str, *more: str) -> Ran:
    ask(directory)
    flags = " ".join(f"--flag-{number} {number}" for number in range(6))
    variables = [f"--env=candidate:SETTING_{number}=1" for number in range(6)]
    return inside(
        "correctness", "localise", "--baseline", server(traits),
        "--candidate", server(traits, flags), *variables, *COMMON, *more, cwd=directory,
    )  # fmt: skip


def test_the_variable_that_matters_is_named_though_starts_are_flaky(tmp_path: Path) -> None:
    ran = localise(tmp_path, "SETTING_4=0.7 else=0.1", "--max-starts", "60")

    assert ran.code == 0, ran
    assert facts(tmp_path)["ending"] == "found"
    assert facts(tmp_path)["answers"][0]["names"] == ["SETTING_4=1"]
    without, with_it = facts(tmp_path)["commands"]
    assert with_it == f"SETTING_4=1 {without}"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_starts_of_a_search_run_at_once_and_each_end_has_both_places(tmp_path: Path) -> None:
    ask(tmp_path)
    ran = inside(
        "correctness", "localise", "--baseline", server("FAULT=1"), "--candidate", server("FAULT=1"),
        "--env", "candidate:FAULT=1", "--env", "candidate:OTHER=1", *COMMON, "--fan-out", "local:2",
        cwd=tmp_path,
    )  # fmt: skip

    assert ran.code == 0, ran
    assert facts(tmp_path)["answers"][0]["names"] == ["FAULT=1"]
    lines = (tmp_path / "out" / "starts.jsonl").read_text().splitlines()
    places = {"baseline": set[str](), "candidate": set[str]()}
    for start in (json.loads(line)["result"]["start"] for line in lines):
        places[start["arm"]].add(start["devices"])
    assert len(places["baseline"]) == 2
    assert places["baseline"] == places["candidate"]


def test_a_search_outside_a_build_makes_no_jobs(tmp_path: Path) -> None:
    ask(tmp_path)
    ran = inside(
        "correctness", "localise", "--baseline", server(), "--candidate", server("--x 1"), *COMMON,
        "--fan-out", cwd=tmp_path,
    )  # fmt: skip

    assert ran.code == 2, ran
    assert "local:N" in ran.out + ran.err


def over_jobs(folder: Path, command: str, fate: Fate) -> tuple[StandInBuild, dict[str, Any]]:
    """A search whose starts are jobs, and the facts of the job that ends it."""
    ask(folder)
    agents = {f"agent-{number}": {"VLLM_KIND": "h100"} for number in range(2)}
    files = {"requests.jsonl": (folder / "requests.jsonl").read_text()}
    build = StandInBuild(folder, command, agents, files=files, fate=fate)
    last = build.run()
    (path,) = last.directory.rglob("report.json")
    made = checked_report(path.read_text())
    assert made["exit_code"] == last.status == 0, last
    assert [table for table in made["tables"] if table["title"] == "Jobs"]
    return build, made["facts"]


@pytest.mark.nightly
def test_starts_of_a_search_are_jobs_and_what_is_lost_double_or_foreign_does_not_count(
    tmp_path: Path,
) -> None:
    other = sealed(Origin(build="other", plan="0" * 64, task="1", step="s", job="j"), b"{}\n")

    def fate(step: str, number: int, retry: int) -> str:
        if not step.endswith("starts-1"):
            return ""
        plan = step.split("-")[-3]
        stand_in_agent.put_artifact(
            build_log, "j", f"ci-doctor-evidence/1-{plan}0000.evidence.gz", other
        )
        return {0: "lost", 1: "twice"}.get(number, "")

    build_log = tmp_path / "agent.log"
    line = words(
        "correctness", "localise", "--baseline", server("FAULT=1"), "--candidate", server("FAULT=1"),
        "--env", "candidate:FAULT=1", "--env", "candidate:OTHER=1", *COMMON, "--fan-out",
    )  # fmt: skip
    build, made = over_jobs(tmp_path, shlex.join(line), fate)

    assert made["answers"][0]["names"] == ["FAULT=1"]
    # Both ends, then those of them that left nothing once more.
    assert [len(build.of_step(f"starts-{wave}")) for wave in (1, 2)] == [7, 2]
    assert sum(each["starts"] for each in made["points"]) == made["starts"]


@pytest.mark.nightly
def test_each_job_of_a_bisection_builds_its_own_commit(tmp_path: Path) -> None:
    history = History(tmp_path / "origin")
    at = history.add("0", ())
    for number in range(8):
        at = history.add("1" if number > 3 else "0", (at,), build="broken" if number == 2 else "ok")
    ids = history.write()
    line = words(
        "correctness", "bisect", f"{ids[1]}..{ids[-1]}", "--command", server(),
        "--build", "sh -c '! grep broken build'", *COMMON, "--fan-out",
    )  # fmt: skip
    source = shlex.quote(str(history.directory))
    command = f"git clone -q {source} own; cp requests.jsonl own; cd own; {shlex.join(line)}"
    build, made = over_jobs(
        tmp_path,
        command,
        lambda step, number, _: "lost" if "starts-2" in step and number == 0 else "",
    )

    assert made["answers"][0]["names"][0].startswith(ids[6][:12])
    # Whoever was killed has cleaned nothing up.
    for job in (each for each in build.jobs if each.status != LOST):
        assert len(git(job.directory / "own", "worktree", "list").splitlines()) == 1


@pytest.mark.nightly
def test_two_flags_that_matter_together_are_named_together(tmp_path: Path) -> None:
    ran = localise(tmp_path, "--flag-1+--flag-3=1", "--max-starts", "60")

    assert ran.code == 0, ran
    assert facts(tmp_path)["answers"][0]["names"] == ["--flag-1 1", "--flag-3 3"]
    without, with_it = facts(tmp_path)["commands"]
    assert with_it.startswith(without)
    assert len(shlex.split(with_it)) - len(shlex.split(without)) == 2


def test_arms_that_answer_alike_are_not_searched(tmp_path: Path) -> None:
    ran = localise(tmp_path, "else=0")

    assert ran.code == 86, ran
    assert facts(tmp_path)["ending"] == "equal"
    assert {each["label"] for each in facts(tmp_path)["points"]} == {
        "the baseline",
        "the candidate",
    }


def test_arms_that_never_start_are_not_said_to_agree(tmp_path: Path) -> None:
    ask(tmp_path)
    command = "sh -c 'sleep 0.1; exit 3' {port}"
    ran = inside(
        "correctness", "localise", "--baseline", command, "--candidate", f"{command} --more", *COMMON,
        cwd=tmp_path,
    )  # fmt: skip

    assert ran.code == 86, ran
    assert facts(tmp_path)["ending"] == "open"
    assert "does not start" in report(tmp_path)["summary"]


@pytest.mark.nightly
def test_a_pin_is_found_by_builds_of_the_repository_and_what_is_not_built_is_skipped(
    tmp_path: Path,
) -> None:
    (tmp_path / "old.txt").write_text("alpha==1\nbeta==1\ngamma==1\n# a comment\n")
    (tmp_path / "new.txt").write_text("alpha==2\nbeta==2\ngamma==2\ndelta==1\n")
    # beta 2 alone, without gamma 2, cannot be installed.
    script = (
        'echo built >> builds; mkdir -p "$2"; grep -q beta==2 "$1" && ! grep -q gamma==2 "$1" && exit 3;'
        ' rate=0; grep -q alpha==2 "$1" && rate=1; echo $rate > "$2/fault"'
    )
    (tmp_path / "build.sh").write_text(script)
    ask(tmp_path)
    command = f"sh -c 'cd {{build}} && exec {server()}'"
    ran = inside(
        "correctness", "localise", "--baseline", command, "--candidate", command, "--build",
        "sh build.sh {pins} {build}", "--baseline-pins", "old.txt", "--candidate-pins", "new.txt",
        *COMMON, cwd=tmp_path,
    )  # fmt: skip

    assert ran.code == 0, ran
    assert facts(tmp_path)["answers"][0]["names"] == ["alpha==2"]
    starts = sum(each["starts"] for each in facts(tmp_path)["points"])
    assert len((tmp_path / "builds").read_text().splitlines()) < starts


class History:
    """A repository whose commits are made at once; `at` are the ids by number."""

    def __init__(self, directory: Path) -> None:
        self.directory = make_repository(directory)
        self.lines: list[str] = []
        self.count = 0

    def add(self, fault: str, parents: tuple[int, ...], text: str = "", build: str = "ok") -> int:
        """A commit whose server has this fault; returns its mark."""
        self.count += 1
        message = text or f"change {self.count}"
        self.lines += [
            "commit refs/heads/made",
            f"mark :{self.count}",
            f"committer a <a@example.org> {1700000000 + self.count} +0000",
            f"data {len(message)}",
            message,
        ]
        if parents:
            self.lines.append(f"from :{parents[0]}")
            self.lines += [f"merge :{each}" for each in parents[1:]]
        for name, content in (("fault", fault), ("build", build), ("count", str(self.count))):
            self.lines += [f"M 644 inline {name}", f"data {len(content)}", content]
        return self.count

    def write(self) -> list[str]:
        """The ids of the commits by mark, from 1."""
        marks = self.directory / ".git" / "marks"
        options = (f"--import-marks-if-exists={marks}", f"--export-marks={marks}")
        subprocess.run(
            ["git", "fast-import", "--quiet", "--force", *options],
            cwd=self.directory,
            input="\n".join([*self.lines, ""]).encode(),
            check=True,
        )
        self.lines.clear()
        rows = dict(line.split() for line in marks.read_text().splitlines())
        return ["", *(rows[f":{number}"] for number in range(1, self.count + 1))]


def bisect(directory: Path, good: str, bad: str, *more: str) -> Ran:
    ask(directory)
    return inside(
        "correctness", "bisect", f"{good}..{bad}", "--command", server(),
        "--build", "sh -c '! grep broken build'", *COMMON, *more, cwd=directory,
    )  # fmt: skip


def history_of_200(directory: Path, bad: str, good: str) -> tuple[list[str], int]:
    """Merges, an innocent revert, and runs of commits that do not build; the ids, and the first bad mark."""
    history = History(directory)
    trunk = history.add(good, ())
    side = 0
    first_bad = 0
    for number in range(2, 200):
        fault = bad if first_bad else good
        build = "broken" if number % 17 < 4 and number not in {2, 199} else "ok"
        text = ""
        if number % 20 == 5:
            side = history.add(good if not first_bad else bad, (trunk,), build=build)
            continue
        if number == 60:
            text = f"Revert a change\n\nThis reverts commit {'0' * 40}."
        if number == 131:
            first_bad, fault, build = number, bad, "ok"
        parents: tuple[int, ...] = (trunk,)
        if number % 20 == 9 and side:
            parents, side = (trunk, side), 0
        trunk = history.add(fault, parents, text, build=build)
    return history.write(), first_bad


@pytest.mark.nightly
def test_the_first_bad_of_200_commits_is_named_though_starts_are_flaky(tmp_path: Path) -> None:
    ids, first_bad = history_of_200(tmp_path, "0.8", "0.05")
    before = git(tmp_path, "status", "--porcelain", "--branch")
    head = git(tmp_path, "rev-parse", "HEAD")
    ran = bisect(tmp_path, ids[1], ids[-1], "--max-starts", "60")

    assert ran.code == 0, ran
    (name,) = facts(tmp_path)["answers"][0]["names"]
    assert name.split()[0] == ids[first_bad][:12]
    assert facts(tmp_path)["commands"] == [f"git show {ids[first_bad]}"]
    # The user's checkout is as it was, and no worktree is left.
    after = git(tmp_path, "status", "--porcelain", "--branch").replace("?? out/\n", "")
    assert (before, head) == (after.split("\n?? ")[0], git(tmp_path, "rev-parse", "HEAD"))
    assert len(git(tmp_path, "worktree", "list").splitlines()) == 1


@pytest.mark.nightly
def test_a_fault_that_came_back_after_its_revert_is_found_where_it_came_back(
    tmp_path: Path,
) -> None:
    history = History(tmp_path)
    at = history.add("0", ())
    for _ in range(8):
        at = history.add("0", (at,))
    brought = at = history.add("1", (at,))
    (*_, brought_id) = history.write()
    undone = at = history.add("0", (at,), f"Revert x\n\nThis reverts commit {brought_id}.")
    ids = history.write()
    for _ in range(8):
        at = history.add("0", (at,))
    again = at = history.add("1", (at,), f"Reapply x\n\nThis reverts commit {ids[undone]}.")
    for _ in range(4):
        at = history.add("1", (at,))
    ids = history.write()
    ran = bisect(tmp_path, ids[1], ids[-1])

    assert ran.code == 0, ran
    names = {each.split()[0] for each in facts(tmp_path)["answers"][0]["names"]}
    assert names & {ids[again][:12], ids[brought][:12]}


def test_a_range_of_two_branches_is_refused_with_their_merge_base(tmp_path: Path) -> None:
    history = History(tmp_path)
    base = history.add("0", ())
    left = history.add("0", (base,))
    right = history.add("1", (base,))
    ids = history.write()
    ran = bisect(tmp_path, ids[left], ids[right])

    assert ran.code == 2, ran
    assert f"{ids[base][:12]}..{ids[right]}" in ran.err + ran.out


@pytest.mark.nightly
def test_a_search_that_was_killed_goes_on_with_its_starts(tmp_path: Path) -> None:
    history = History(tmp_path)
    at = history.add("0", ())
    for number in range(20):
        at = history.add("1" if number > 12 else "0", (at,))
    ids = history.write()
    ask(tmp_path)
    words = (
        "correctness", "bisect", f"{ids[1]}..{ids[-1]}", "--command", server(), *COMMON,
    )  # fmt: skip
    running = begin(*words, cwd=tmp_path)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith(b"B4  "):
            running.send_signal(signal.SIGKILL)
            break
    running.communicate(timeout=LIMIT_S)
    made = len((tmp_path / "out" / "starts.jsonl").read_text().splitlines())
    kept = [word for word in words if word not in {"--report-dir", "out"}]
    ran = doctor(*kept, "--resume", "out", cwd=tmp_path, timeout=LIMIT_S)

    assert ran.code == 0, ran
    assert f"resuming with {made} starts" in ran.err
    assert facts(tmp_path)["answers"][0]["names"][0].startswith(ids[15][:12])
    assert len(git(tmp_path, "worktree", "list").splitlines()) == 1
