# SPDX-License-Identifier: Apache-2.0
"""What `correctness --devices` says where a device is at fault, and what it saves.

    python benchmarks/side_by_side.py            simulated devices, 2,000 runs a world, then real starts
    python benchmarks/side_by_side.py --record   also appends both to benchmarks/RESULTS.md

The schedule, the draw of the devices and the verdicts are those of `ci_doctor.correctness`. The real starts are small
servers that need `--ready` seconds to become ready: a run on two devices against the same run on one. The exit status
is 1 if a change that is innocent is blamed in more than 2.5 % of the runs, or if an upper limit is above 4 %.
"""

import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec.structs import replace
from results import options, record, table
from simulation.faults import Bug
from simulation.harness import SEED, wilson
from simulation.judges import CountedStart, Ours
from simulation.machines import Ageing
from simulation.scenario import EVEN, HALF
from simulation.targets import MOST_RED, MOST_RED_LIMIT
from simulation.worlds import REQUESTS, Draw, Modes, Part, answer

from ci_doctor.correctness.settings import Rules
from ci_doctor.correctness.verdict.schedule import drawn_places, next_arms
from ci_doctor.model.outcome import Verdict

HEAD = "world | the change is | red, % | upper limit | green, % | starts | waves | "
RED = (Verdict.REGRESSION, Verdict.FAILED)
SERVER = Path(__file__).parents[1] / "tests" / "support" / "programs" / "serve_model.py"
# A part that happens in starts on one device alone.
OnDevice = Callable[[Draw], None]


def write(text: str | None, rate: float = 1.0) -> OnDevice:
    """Half of the answers become `text`, or all of them fail, in so many of the starts."""

    def part(draw: Draw) -> None:
        if draw.happens(rate):
            draw.write(HALF if text else range(len(draw.answers)), text)  # type: ignore[arg-type]

    return part


class World(NamedTuple):
    """`device` happens on device 1, `parts` everywhere."""

    title: str
    device: OnDevice
    parts: Sequence[Part] = ()
    devices: int = 2
    innocent: bool = True


WORLDS = (
    World("device 1 answers otherwise", write("device 1")),
    World("device 1 answers otherwise in half of its starts", write("device 1", 0.5)),
    World("nothing works on device 1", write(None)),
    World("half of the starts on device 1 die", write(None, 0.5)),
    World("one device of four answers otherwise", write("device 1"), devices=4),
    World("nothing works on one device of four", write(None), devices=4),
    World("device 1 answers otherwise, two modes .5/.5", write("device 1"), [Modes(range(50, 100), EVEN)]),
    World("device 1 answers otherwise, each start flips one more", write("device 1"), [Ageing(range(50, 100))]),
    World("half of the starts on device 1 die, each start flips one more", write(None, 0.5), [Ageing(HALF)]),
    World("no difference", lambda _: None),
    World("a fault in every candidate start", lambda _: None, [Bug(range(1))], innocent=False),
    World("the same, and device 1 answers otherwise", write("device 1"), [Bug(range(99, 100))], innocent=False),
    World("the same, and nothing works on device 1", write(None), [Bug(range(99, 100))], innocent=False),
)  # fmt: skip


class Outcome(NamedTuple):
    verdict: Verdict
    starts: int
    waves: int


def run(world: World, rng: Random, seed: int, at_once: int) -> Outcome:
    """One run: its starts at `at_once`, each on the device that is drawn for it."""
    judge, rules, memory = Ours(Rules()), replace(Rules(), seed=seed), dict[int, int]()
    starts: list[CountedStart] = []
    waves = 0
    while arms := next_arms(starts, REQUESTS, rules, at_once):
        waves += 1
        places = drawn_places(starts, rules, world.devices, at_once)
        for arm, place in zip(arms, places, strict=False):
            draw = Draw(rng, arm, len(starts), memory)
            answers = answer([*world.parts, *([world.device] if place == 1 else [])], draw)
            number = 1 + sum(start.arm is arm for start in starts)
            start = judge.start(arm, number, answers, archived=False)
            starts.append(replace(start, devices=str(place)))
    return Outcome(judge.said(starts, seed).verdict, len(starts), waves)


def simulated(runs: int) -> Iterator[tuple[World, list[Outcome]]]:
    for world in WORLDS:
        rng = Random(f"{SEED} {world.title}")
        yield world, [run(world, rng, number, 2) for number in range(runs)]


def row(world: World, done: Sequence[Outcome]) -> tuple[tuple[str, ...], bool]:
    """A line of the table, and whether an innocent change is blamed seldom enough."""
    verdicts = Counter(each.verdict for each in done)
    red = sum(verdicts[each] for each in RED)
    green = verdicts[Verdict.PASS] + verdicts[Verdict.FLAKY]
    upper = wilson(red, len(done))[1]
    within = (
        not green if not world.innocent else red <= MOST_RED * len(done) and upper <= MOST_RED_LIMIT
    )
    starts, waves = (
        statistics.fmean(each)
        for each in zip(*((one.starts, one.waves) for one in done), strict=True)
    )
    share = 100 / len(done)
    cells = (world.title, "innocent" if world.innocent else "at fault", f"{share * red:.2f}", f"{100 * upper:.2f}",
             f"{share * green:.1f}", f"{starts:.1f}", f"{waves:.1f}", "PASS" if within else "FAIL")  # fmt: skip
    return cells, within


def seconds_of(folder: Path, ready_s: float, candidate: str, devices: str) -> float:
    """Wall clock of a run of the command line, with a change that answers as `candidate`."""
    (folder / "requests.jsonl").write_text(
        "".join(
            f'{{"id": "r{number}", "body": {{"prompt": "p{number}", "temperature": 0}}}}\n'
            for number in range(8)
        )
    )
    words = shlex.join([sys.executable, "-S", str(SERVER)])
    server = f"{words} {{port}} ready-after={ready_s:g} {candidate} {shlex.quote(str(folder))}"
    base = f"{words} {{port}} ready-after={ready_s:g} {shlex.quote(str(folder))}"
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "ci_doctor", "correctness", "--baseline", base, "--candidate", server,
         "--requests", "requests.jsonl", "--seed", "1", "--no-localise", "--devices", devices],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return time.perf_counter() - began


def measured(ready_s: float, rounds: int) -> Iterator[tuple[str, ...]]:
    for title, candidate in (("equal answers", ""), ("a regression", "flip")):
        times: dict[str, list[float]] = {"0": [], "0,1": []}
        with tempfile.TemporaryDirectory() as name:
            for _ in range(rounds):
                for devices, seconds in times.items():
                    seconds.append(seconds_of(Path(name), ready_s, candidate, devices))
        alone, both = (statistics.median(seconds) for seconds in times.values())
        yield title, f"{alone:.1f}", f"{both:.1f}", f"{both / alone:.2f}"


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="runs of each simulated world")
    parser.add_argument("--ready", type=float, default=10.0, metavar="S", help="of a real server")
    parser.add_argument("--rounds", type=int, default=3, help="real runs of each kind")
    given = parser.parse_args()
    rows = [row(*each) for each in simulated(given.runs)]
    said = "Two starts at once (a wave), each on a device that is drawn. Red is `regression` or `failed`."
    lines = [f"Simulated. {said}", "", *table(HEAD, (cells for cells, _ in rows))]
    if given.rounds:
        said = (
            f"ready after {given.ready:g} s, median of {given.rounds} runs, seconds of wall clock."
        )
        real = table(" | one device | two devices | ratio", measured(given.ready, given.rounds))
        lines += ["", f"Real starts, {said}", "", *real]
    print(*lines, sep="\n")
    if given.record:
        record(f"starts side by side, {given.runs} runs a world, seed {SEED}", lines)
    return 0 if all(within for _, within in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
