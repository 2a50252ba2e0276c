# SPDX-License-Identifier: Apache-2.0
"""How often a search for a setting or a commit is right, by how many starts, and whether its probability is true.

    python benchmarks/searching.py                 every scenario: 1,000 runs where a target or nothing is, else 300
    python benchmarks/searching.py --only commits  one kind
    python benchmarks/searching.py --record        also appends the table to benchmarks/RESULTS.md

The searches are those of `ci_doctor.correctness.localise`. The rates are those of the simulation, and the search does not
know them. Beside the search for a commit: `git bisect`, in a real repository, on the same streams of starts, with
three starts of each commit, where a commit is bad if one of them shows the fault, if two do, or if all three do (a
retry until green). The first runs are made by `git bisect run`, the others by the commits that git names to be tested.
The exit status is 1 where a target is missed.
"""

import argparse
import itertools
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from results import record

from ci_doctor.correctness.localise.bisection import CommitNode, CommitSpace
from ci_doctor.correctness.localise.noise import NoisySearch, SearchEnd, SearchSpace
from ci_doctor.correctness.localise.setting_search import SettingSpace

# The default of both commands.
CONFIDENCE = 0.9
# So seldom would chance alone make the answers so wrong.
_CHANCE = 0.01
# Scenarios without a target have so many of the runs.
_SHARE_OF_OTHERS = 0.3
# A run of git takes seconds.
_RUNS_OF_GIT = 5
# Of searches where nothing differs, so many may name something: at rates up to 20 %, and at all others.
_FALSE_OF_FEW, _FALSE_OF_MANY = 0.0, 0.01
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
    """A simulated search: how often a start with the fault and one without it shows it.

    `size` settings or commits; `needed` settings make the fault together. `alike`: this share of commits
    have starts that all go alike. `returns`: the fault goes, and comes back later.
    """

    kind: str
    size: int
    bad: float
    good: float
    most: int
    needed: int = 1
    alike: float = 0
    returns: bool = False

    @property
    def is_absent(self) -> bool:
        return self.bad == self.good

    @property
    def name(self) -> str:
        what = f"{self.bad:.0%} / {self.good:.0%}"
        size = f"{self.size} commits"
        if self.kind == "settings":
            size = f"{self.needed} of {self.size} settings"
        more = f", {self.alike:.0%} of builds go alike" if self.alike else ""
        more += ", goes and comes back" if self.returns else ""
        return f"{size}, {what}{more}, {self.most} starts"


class Run(NamedTuple):
    end: SearchEnd
    is_right: bool
    probability: float
    starts: int


SETTINGS = Scenario("settings", 16, 0.7, 0.1, 60)
BISECTION = Scenario("commits", 128, 0.8, 0.05, 40)
SCENARIOS = (
    SETTINGS,
    *(
        Scenario("settings", 16, bad, good, 60)
        for bad, good in (
            (1, 0), (0.95, 0.01), (0.5, 0.05), (0.5, 0.2), (0.3, 0.1), (0.2, 0.2), (0.5, 0.5), (0, 0)
        )
    ),
    Scenario("settings", 16, 0.5, 0.2, 120),
    Scenario("settings", 16, 0.7, 0.1, 60, needed=2),
    Scenario("settings", 16, 0.9, 0.05, 60, needed=3),
    BISECTION,
    *(
        Scenario("commits", 128, bad, good, 40)
        for bad, good in (
            (1, 0), (0.95, 0.01), (0.7, 0.1), (0.5, 0.05), (0.3, 0.1), (0.2, 0.2), (0.5, 0.5), (0, 0)
        )
    ),
    Scenario("commits", 128, 0.8, 0.05, 60),
    *(
        Scenario("commits", 128, bad, good, 80)
        for bad, good in ((0.7, 0.1), (0.5, 0.05), (0.9, 0.4), (0.77, 0.07))
    ),
    *(
        Scenario("commits", 128, bad, good, 200)
        for bad, good in ((0.5, 0.2), (0.3, 0.1), (0.95, 0.7), (0.5, 0.5))
    ),
    *(
        Scenario("commits", 16, bad, good, most)
        for bad, good, most in ((0.8, 0.05, 40), (0.5, 0.2, 120), (0.2, 0.2, 120))
    ),
    *(
        Scenario("commits", 200, bad, good, most)
        for bad, good, most in ((0.8, 0.05, 40), (0.7, 0.1, 80), (0.2, 0.2, 40))
    ),
    Scenario("commits", 128, 1, 0, 40, returns=True),
    Scenario("commits", 128, 0.8, 0.05, 40, returns=True),
    Scenario("commits", 128, 0.8, 0.05, 40, alike=0.3),
)  # fmt: skip


def streams(seed: int, point: int, alike: float = 0) -> Iterator[float]:
    """What decides the starts at a point: the same numbers for each program that asks."""
    random = np.random.default_rng((seed, point + 1))
    if alike and random.random() < alike:
        yield from itertools.repeat(float(random.random()))
    while True:
        yield float(random.random())


def searched(scenario: Scenario, seed: int, search: NoisySearch) -> Run:
    """One search; the truth is drawn from the seed."""
    truth = truth_of(scenario, seed)
    # The fault is away for a third of the commits since it came.
    away = range(0)
    if scenario.returns:
        third = (scenario.size - truth[0]) // 3
        away = range(truth[0] + third, truth[0] + 2 * third)
    given: dict[int, Iterator[float]] = {}
    while (point := search.next_point()) is not None:
        if scenario.kind == "settings":
            has_fault = all(point >> each & 1 for each in truth)
        else:
            has_fault = point >= truth[0] and point not in away
        rate = scenario.bad if has_fault else scenario.good
        number = point % (1 << 32)
        stream = given.setdefault(point, streams(seed, number, scenario.alike))
        search.add(point, shown=next(stream) < rate)
    best = search.best
    right = best.names == truth or (bool(away) and best.names == (away.stop,))
    return Run(search.end, right and not scenario.is_absent, best.probability, len(search.results))


def truth_of(scenario: Scenario, seed: int) -> tuple[int, ...]:
    random = np.random.default_rng(seed)
    if scenario.kind == "commits":
        return (int(random.integers(scenario.size)),)
    chosen = random.choice(scenario.size, size=scenario.needed, replace=False)
    return tuple(sorted(map(int, chosen)))


def measured(scenario: Scenario, runs: int) -> list[Run]:
    space: SearchSpace
    if scenario.kind == "settings":
        space = SettingSpace(scenario.size)
    else:
        parents = [(), *((each,) for each in range(scenario.size - 1))]
        space = CommitSpace(
            [CommitNode(id=str(at), parents=each) for at, each in enumerate(parents)]
        )
    if scenario not in {SETTINGS, BISECTION} and not scenario.is_absent:
        runs = math.ceil(runs * _SHARE_OF_OTHERS)
    return [
        searched(scenario, seed, NoisySearch(space, confidence=CONFIDENCE, most=scenario.most))
        for seed in range(_FIRST_SEED, _FIRST_SEED + runs)
    ]


COLUMNS = (
    "runs",
    "right",
    "wrong",
    "inconclusive",
    "equal",
    "stated",
    "true",
    "best is right",
    "starts",
)


def row(runs: Sequence[Run]) -> tuple[str, ...]:
    found = [each for each in runs if each.end is SearchEnd.FOUND]
    right = sum(each.is_right for each in found)
    ends = Counter(each.end for each in runs)
    open_ends = len(runs) - len(found) - ends[SearchEnd.EQUAL]
    counts = (right, len(found) - right, open_ends, ends[SearchEnd.EQUAL])
    stated = statistics.fmean(each.probability for each in found) if found else None
    return (
        f"{len(runs):,}",
        *(f"{100 * each / len(runs):.1f} %" for each in counts),
        "-" if stated is None else f"{100 * stated:.1f} %",
        f"{100 * right / len(found):.1f} %" if found else "-",
        f"{100 * sum(each.is_right for each in runs) / len(runs):.1f} %",
        f"{statistics.fmean(each.starts for each in runs):.1f}",
    )


# --- git bisect ---


def repository(directory: Path, commits: int) -> list[str]:
    """A repository of a good commit and those that may be bad; their ids, the good one first."""
    lines: list[str] = []
    for number in range(commits + 1):
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
    starts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        ids = repository(directory, scenario.size)

        @cache
        def next_of(good: int, bad: int) -> int:
            words = ("rev-list", "--bisect", ids[bad + 1], f"^{ids[good + 1]}")
            return ids.index(git(directory, *words).strip()) - 1

        for seed in range(_FIRST_SEED, _FIRST_SEED + runs):
            (truth,) = truth_of(scenario, seed)
            counts = []
            for point in range(scenario.size):
                rate = scenario.bad if point >= truth else scenario.good
                stream = streams(seed, point)
                counts.append(sum(next(stream) < rate for _ in range(3)))
            for rule, least in rules.items():
                good, bad = -1, scenario.size - 1
                while bad - good > 1:
                    tested = next_of(good, bad)
                    good, bad = (good, tested) if counts[tested] >= least else (tested, bad)
                    starts[rule] += 3
                if seed < _FIRST_SEED + _RUNS_OF_GIT:
                    marks = [point for point in range(scenario.size) if counts[point] >= least]
                    assert bisected(directory, ids, marks) == bad
                right[rule] += bad == truth
    return {rule: (right[rule] / runs, starts[rule] / runs) for rule in rules}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=1000,
        help="runs of a scenario with a target, or where nothing differs",
    )
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
        lines.append("")
        for rule, (share, starts) in with_git(BISECTION, arguments.runs).items():
            lines.append(
                f"- `git bisect`, {BISECTION.name}, bad if {rule} show it: "
                f"{100 * share:.1f} % right, {starts:.0f} starts"
            )
            print(lines[-1], flush=True)
    print(*(f"MISSED  {each}" for each in missed), sep="\n")
    if arguments.record:
        seconds = time.perf_counter() - began
        title = f"searches under noise, {seconds:.0f} s"
        record(title, lines, f". Confidence {CONFIDENCE:.0%}")
    return 1 if missed else 0


def misses(scenario: Scenario, runs: Sequence[Run]) -> Iterator[str]:
    """The targets that a scenario misses."""
    found = [each for each in runs if each.end is SearchEnd.FOUND]
    right = sum(each.is_right for each in found)
    most = _FALSE_OF_FEW if scenario.bad <= 0.2 else _FALSE_OF_MANY
    if scenario.is_absent and len(found) > most * len(runs):
        yield f"{len(found)} of {len(runs)} name something where there is nothing"
    elif found and not scenario.is_absent and not scenario.alike:
        stated = min(1.0, statistics.fmean(each.probability for each in found))
        count = len(found)
        chance = sum(
            math.comb(count, each) * stated**each * (1 - stated) ** (count - each)
            for each in range(right + 1)
        )
        if chance < _CHANCE:
            yield f"{right} of {count} are right, {stated:.1%} are stated"
    if scenario == SETTINGS and (len(found) - right) / len(runs) > 0.02:
        yield "more than 2 % wrong answers"
    best = sum(each.is_right for each in runs) / len(runs)
    if scenario == BISECTION and best < 0.95:
        yield f"{best:.1%} are right, at least 95 % are wanted"


if __name__ == "__main__":
    sys.exit(main())
