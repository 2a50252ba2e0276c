# SPDX-License-Identifier: Apache-2.0
"""How often a search for a setting or a commit is right, by how many starts, and whether its probability is true.

    python benchmarks/searching.py                 every scenario, 200 runs each
    python benchmarks/searching.py --only commits  one kind
    python benchmarks/searching.py --record        also appends the table to benchmarks/RESULTS.md

The searches are those of `ci_doctor.correctness.localise`. The rates are those of the simulation, and the search does not
know them. Beside the search for a commit: `git bisect run`, in a real repository, on the same streams of starts, with
three starts of each commit, where a commit is bad if one of them shows the fault, if two do, or if all three do (a
retry until green). The exit status is 1 where a target is missed.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from results import record

from ci_doctor.correctness.localise.bisection import CommitNode, CommitSpace
from ci_doctor.correctness.localise.noise import NoisySearch, SearchEnd, SearchSpace
from ci_doctor.correctness.localise.setting_search import SettingSpace

COMMITS = 128
# The default of both commands.
CONFIDENCE = 0.95
# A run of git takes seconds.
_MOST_OF_GIT = 50
# Others than those by which the priors of the rates were chosen.
_FIRST_SEED = 50_000
_GIT = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


class Scenario(NamedTuple):
    """A simulated search: how often a start with the fault and one without it shows it."""

    kind: str
    bad: float
    good: float
    most: int
    needed: int = 1
    is_absent: bool = False
    settings: int = 16

    @property
    def name(self) -> str:
        if self.is_absent:
            what = f"no fault, {self.good:.0%}"
        else:
            what = f"{self.bad:.0%} / {self.good:.0%}"
        size = (
            f"{self.needed} of {self.settings} settings" if self.kind == "settings" else "commits"
        )
        return f"{size}, {what}, {self.most} starts"


class Run(NamedTuple):
    end: SearchEnd
    is_right: bool
    probability: float
    starts: int


SCENARIOS = (
    Scenario("settings", 0.7, 0.1, 60),
    Scenario("settings", 1.0, 0.0, 60),
    Scenario("settings", 0.5, 0.0, 60),
    Scenario("settings", 0.3, 0.1, 60),
    Scenario("settings", 0.1, 0.1, 60, is_absent=True),
    Scenario("settings", 0.0, 0.0, 60, is_absent=True),
    Scenario("settings", 0.7, 0.1, 60, needed=2),
    Scenario("settings", 0.9, 0.05, 60, needed=3),
    Scenario("commits", 0.8, 0.05, 40),
    Scenario("commits", 1.0, 0.0, 40),
    Scenario("commits", 0.5, 0.0, 40),
    Scenario("commits", 0.5, 0.0, 120),
    Scenario("commits", 0.3, 0.1, 40),
    Scenario("commits", 0.3, 0.1, 300),
    Scenario("commits", 0.1, 0.1, 40, is_absent=True),
    Scenario("commits", 0.0, 0.0, 40, is_absent=True),
)


def streams(seed: int, point: int) -> Iterator[float]:
    """What decides the starts at a point: the same numbers for each program that asks."""
    random = np.random.default_rng((seed, point + 1))
    while True:
        yield float(random.random())


def searched(scenario: Scenario, seed: int, search: NoisySearch) -> Run:
    """One search; the truth is drawn from the seed."""
    truth = truth_of(scenario, seed)
    given: dict[int, Iterator[float]] = {}
    while (point := search.next_point()) is not None:
        if scenario.kind == "settings":
            has_fault = all(point >> each & 1 for each in truth)
        else:
            has_fault = point >= truth[0]
        rate = scenario.bad if has_fault and not scenario.is_absent else scenario.good
        stream = given.setdefault(point, streams(seed, point % (1 << 32)))
        search.add(point, shown=next(stream) < rate)
    best = search.best
    right = best.names == truth and not scenario.is_absent
    return Run(search.end, right, best.probability, len(search.results))


def truth_of(scenario: Scenario, seed: int) -> tuple[int, ...]:
    random = np.random.default_rng(seed)
    if scenario.kind == "commits":
        return (int(random.integers(COMMITS)),)
    chosen = random.choice(scenario.settings, size=scenario.needed, replace=False)
    return tuple(sorted(map(int, chosen)))


def measured(scenario: Scenario, runs: int) -> list[Run]:
    space: SearchSpace
    if scenario.kind == "settings":
        space = SettingSpace(scenario.settings)
    else:
        nodes = [
            CommitNode(id=str(each), parents=(each - 1,) if each else ()) for each in range(COMMITS)
        ]
        space = CommitSpace(nodes)
    return [
        searched(scenario, seed, NoisySearch(space, confidence=CONFIDENCE, most=scenario.most))
        for seed in range(_FIRST_SEED, _FIRST_SEED + runs)
    ]


COLUMNS = ("right", "wrong", "inconclusive", "equal", "stated", "true", "best is right", "starts")


def row(runs: Sequence[Run]) -> tuple[str, ...]:
    found = [each for each in runs if each.end is SearchEnd.FOUND]
    right = sum(each.is_right for each in found)
    ends = Counter(each.end for each in runs)
    open_ends = ends[SearchEnd.STARTS] + ends[SearchEnd.EXHAUSTED]
    counts = (right, len(found) - right, open_ends, ends[SearchEnd.EQUAL])
    stated = statistics.fmean(each.probability for each in found) if found else None
    return (
        *(f"{100 * each / len(runs):.1f} %" for each in counts),
        "-" if stated is None else f"{100 * stated:.1f} %",
        f"{100 * right / len(found):.1f} %" if found else "-",
        f"{100 * sum(each.is_right for each in runs) / len(runs):.1f} %",
        f"{statistics.fmean(each.starts for each in runs):.1f}",
    )


# --- git bisect ---


def repository(directory: Path) -> list[str]:
    """A repository of a good commit and those that may be bad; their ids, the good one first."""
    lines: list[str] = []
    for number in range(COMMITS + 1):
        lines += [
            "commit refs/heads/main",
            f"mark :{number + 1}",
            f"committer a <a@example.org> {1700000000 + number} +0000",
            "data 1",
            "x",
            "M 644 inline number",
            f"data {len(str(number - 1))}",
            str(number - 1),
        ]
    git(directory, "init", "--quiet", "--initial-branch=main")
    git(directory, "fast-import", "--quiet", text="\n".join([*lines, ""]))
    git(directory, "reset", "--quiet", "--hard", "main")
    return git(directory, "log", "--reverse", "--format=%H").split()


def git(directory: Path, *words: str, text: str = "") -> str:
    ran = subprocess.run(
        ["git", *words],
        cwd=directory,
        env={**os.environ, **_GIT},
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


def bisected(directory: Path, ids: Sequence[str], bad_marks: Sequence[int]) -> int:
    """The number of the commit that a real `git bisect run` names, if just these commits test bad."""
    (directory / ".git" / "bad").write_text("".join(f"<{each}>" for each in bad_marks))
    git(directory, "bisect", "start", "--no-checkout", ids[-1], ids[0])
    script = 'grep -q "<$(git show BISECT_HEAD:number)>" .git/bad && exit 1; exit 0'
    git(directory, "bisect", "run", "sh", "-c", script)
    named = git(directory, "rev-parse", "refs/bisect/bad").strip()
    git(directory, "bisect", "reset")
    return ids.index(named) - 1


def with_git(scenario: Scenario, runs: int) -> dict[str, tuple[float, float]]:
    """By rule: the share of runs in which git names the right commit, and the starts that it took."""
    right: Counter[str] = Counter()
    rules = {"one of 3": 1, "two of 3": 2, "three of 3": 3}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        ids = repository(directory)
        for seed in range(_FIRST_SEED, _FIRST_SEED + runs):
            (truth,) = truth_of(scenario, seed)
            counts = []
            for point in range(COMMITS):
                rate = scenario.bad if point >= truth else scenario.good
                stream = streams(seed, point)
                counts.append(sum(next(stream) < rate for _ in range(3)))
            for rule, least in rules.items():
                bad = [point for point in range(COMMITS) if counts[point] >= least]
                right[rule] += bisected(directory, ids, bad) == truth
    # Seven commits of 128 are tested, three times each.
    return {rule: (right[rule] / runs, 21.0) for rule in rules}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200, help="runs of each scenario")
    parser.add_argument("--only", choices=["settings", "commits"], help="one kind of search")
    parser.add_argument("--record", action="store_true", help="append the table to RESULTS.md")
    arguments = parser.parse_args()
    began = time.perf_counter()
    lines = ["| search | " + " | ".join(COLUMNS) + " |", "|---|" + "--:|" * len(COLUMNS)]
    missed = []
    for scenario in SCENARIOS:
        if arguments.only not in {None, scenario.kind}:
            continue
        runs = measured(scenario, arguments.runs)
        lines.append(f"| {scenario.name} | " + " | ".join(row(runs)) + " |")
        print(lines[-1], flush=True)
        missed += [f"{scenario.name}: {each}" for each in misses(scenario, runs)]
    if arguments.only != "settings":
        target = next(each for each in SCENARIOS if each.kind == "commits")
        lines.append("")
        for rule, (share, starts) in with_git(target, min(arguments.runs, _MOST_OF_GIT)).items():
            lines.append(
                f"- `git bisect run`, {target.name}, {min(arguments.runs, _MOST_OF_GIT)} runs, bad if {rule} show it: {100 * share:.0f} % right, {starts:.0f} starts"
            )
            print(lines[-1], flush=True)
    print(*(f"MISSED  {each}" for each in missed), sep="\n")
    if arguments.record:
        seconds = time.perf_counter() - began
        title = f"searches under noise, {arguments.runs} runs a row, {seconds:.0f} s"
        record(title, lines, f". Confidence {CONFIDENCE:.0%}")
    return 1 if missed else 0


def misses(scenario: Scenario, runs: Sequence[Run]) -> Iterator[str]:
    """The targets that the scenarios of the issue miss."""
    found = [each for each in runs if each.end is SearchEnd.FOUND]
    wrong = (len(found) - sum(each.is_right for each in found)) / len(runs)
    if scenario == Scenario("settings", 0.7, 0.1, 60) and wrong > 0.02:
        yield f"{100 * wrong:.1f} % wrong answers, at most 2 % are allowed"
    right = sum(each.is_right for each in runs) / len(runs)
    if scenario == Scenario("commits", 0.8, 0.05, 40) and right < 0.95:
        yield f"{100 * right:.1f} % right, at least 95 % are wanted"
    if scenario.is_absent and wrong > 0.05:
        yield f"{100 * wrong:.1f} % name something where there is nothing"


if __name__ == "__main__":
    sys.exit(main())
