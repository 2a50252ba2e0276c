# SPDX-License-Identifier: Apache-2.0
"""Whether evidence that jobs leave leads to the verdict of a run that makes the same starts itself.

    python benchmarks/fan_out.py                 10,000 simulated runs over all scenarios of benchmarks/verdicts.py
    python benchmarks/fan_out.py --runs 1000     fewer
    python benchmarks/fan_out.py --timed 60      ten starts of 60 s on five agents, beside four one after the other
    python benchmarks/fan_out.py --record        also appends the table to benchmarks/RESULTS.md

Each run draws its starts once. One side decides over them as they are. The other side seals them pair by pair as jobs do,
loses some jobs, retries others, adds files of another build that agree, and shuffles all; the code of `--fan-out` gathers
them, asks for more, and decides. A third run decides after each start, and stops where it may. The exit status is 1 if the
first two differ, or if the ten starts take more than 1.3 times as long as the four. There each job is a process of its own
with real servers that wait; the agent's command line and the scheduler are stood in for (tests/support/stand_in_build.py).
"""

import argparse
import json
import multiprocessing
import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace
from results import record
from simulation.harness import SEED
from simulation.judges import CountedStart, Ours
from simulation.scenarios import SCENARIOS
from simulation.servers import Servers
from simulation.worlds import REQUESTS

from ci_doctor.buildkite.fan_out import Evidence, NotEvidenceError, Origin, chosen, sealed, unsealed
from ci_doctor.correctness.asked_jobs import Pair, Task, starts_at
from ci_doctor.correctness.evidence.resume import write_starts
from ci_doctor.correctness.evidence.samples import Sample
from ci_doctor.correctness.fan_out import assemble, next_wave, pair_evidence
from ci_doctor.correctness.planning import ExperimentRequest, PreparedExperiment, prepare
from ci_doctor.correctness.results import SAMPLES, Tally, level_digests, without_answers
from ci_doctor.correctness.settings import Arm, ArmSettings, CorrectnessSettings, Rules
from ci_doctor.correctness.verdict.decide import decide
from ci_doctor.correctness.verdict.schedule import next_arm, sequence
from ci_doctor.load.canonical import digest
from ci_doctor.model.outcome import Verdict, is_green

RUNS = 10_000
# Each tenth request of a scenario: a run reads and writes each answer.
ASKED = REQUESTS[::10]
# A job's files are written through to the disk, which costs more than all decisions.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
BUILD, PLAN = "this build", "ab" * 32
TRIES = 3
Files = list[tuple[str, str, Evidence | str]]


@lru_cache(maxsize=1 << 16)
def fields(text: str) -> dict[str, Any]:
    output = {"choices": [{"index": 0, "text": text, "finish_reason": "stop"}]}
    levels = level_digests(output)
    return {
        "output": output,
        "digest": digest(output),
        "words_digest": levels.words,
        "tokens_digest": levels.tokens,
    }


def drawn(number: int, rules: Rules) -> list[CountedStart]:
    """All starts that the rules may need, in their order."""
    scenario = SCENARIOS[number % len(SCENARIOS)]
    servers, judge = Servers(scenario, Random(f"{SEED} fan-out {number}")), Ours(rules)
    made: Counter[Arm] = Counter()
    starts = []
    for arm in sequence(rules):
        made[arm] += 1
        start = judge.start(arm, made[arm], servers.ask(arm), archived=False)
        answers = {request: start.answers[request] for request in ASKED}
        given = sum(answer is not None for answer in answers.values())
        starts.append(replace(start, answers=answers, number_answered=given))
    return starts


def prepared_in(directory: Path) -> PreparedExperiment:
    """The experiment that the jobs of all runs work on, but for its seed."""
    lines = [json.dumps({"id": each, "body": {"prompt": each, "temperature": 0}}) for each in ASKED]
    requests = directory / "requests.jsonl"
    requests.write_text("\n".join(lines) + "\n")
    arm = ArmSettings(command=f"{sys.executable} -c pass {{port}}")
    settings = CorrectnessSettings(
        requests=str(requests), passes=1, control=False, baseline=arm, candidate=arm
    )
    return prepare(ExperimentRequest(settings=settings), directory / "report", {})


def left_by_a_job(
    prepared: PreparedExperiment, starts: Sequence[CountedStart], into: Path
) -> bytes:
    """The evidence of the job that made these starts."""
    lines, records = [], []
    for start in starts:
        tally = Tally(arm=start.arm, number=start.number, ids=ASKED, passes=1)
        for request, answer in start.answers.items():
            given = {"error": "HTTP 500"} if answer is None else fields(answer)
            sample = Sample(arm=start.arm.value, start=start.number, pass_=1, id=request, **given)
            tally.add(sample)
            lines.append(msgspec.json.encode(sample) + b"\n")
        result = tally.result()
        result = replace(
            result, start=replace(result.start, failed=start.failed), samples=tally.count
        )
        records.append(without_answers(result))
    into.mkdir(exist_ok=True)
    (into / SAMPLES).write_bytes(b"".join(lines))
    write_starts(into, records)
    return pair_evidence(into, prepared.identities)


Made = Callable[[bool], bytes]


def uploaded(task: Task, pair: Pair, made: Made, rng: Random) -> Files:
    """What the Artifacts tab holds of a pair's job. `made(True)` are starts that all agree, of another build."""
    wave = len(task.waves) - 1
    name = "-".join(str(place + 1) for place in (pair[0], pair[-1])[: len(pair)])
    own = Origin(build=BUILD, plan=PLAN, task=name, step=task.key(wave), job=f"{wave} {pair}")
    again = replace(own, job=f"{own.job} again", retry=1)
    fate = rng.choice(["lost", "retried", "cut", "twice", "foreign", *["whole"] * 5])
    if any(pair in earlier for earlier in task.waves[:-1]):
        # It was lost once already.
        fate = "whole"
    if fate == "lost":
        return []
    if fate == "foreign":
        return [("foreign", own.job, Evidence(origin=replace(own, build="other"), body=made(True)))]
    content = sealed(own, made(False))
    whole = unsealed(content, 1 << 30)
    files: Files = [("whole", own.job, whole)]
    if fate in {"retried", "cut"}:
        files.append(("again", again.job, Evidence(origin=again, body=whole.body)))
    if fate == "cut":
        try:
            files[0] = ("cut", own.job, unsealed(content[:-20], 1 << 30))
        except NotEvidenceError as error:
            files[0] = ("cut", own.job, str(error))
    if fate == "twice":
        files.append(("twice", own.job, whole))
    return files


def by_jobs(
    prepared: PreparedExperiment, starts: Sequence[CountedStart], rng: Random, scratch: Path
) -> tuple[Verdict, int]:
    """The verdict over the evidence of jobs, and how many starts it rests on."""
    task = Task(plan=PLAN, began="j", seed=prepared.plan.rules.seed, waves=(((0, 1),),))
    files: Files = []
    while True:
        for pair in task.waves[-1]:
            own = [starts[place] for place in pair]
            given = starts_at(prepared.pace.order, pair)
            assert tuple((start.arm, start.number) for start in own) == given

            def made(agree: bool, own: Sequence[CountedStart] = own) -> bytes:
                answers = starts[0].answers
                alike = [replace(start, answers=answers) for start in own] if agree else own
                return left_by_a_job(prepared, alike, scratch)

            files += uploaded(task, pair, made, rng)
        rng.shuffle(files)
        assembled = assemble(prepared, task, chosen(files, task.asked(BUILD)))
        wave = next_wave(prepared, task, assembled)
        if not wave:
            experiment = assembled.experiment
            decision = decide(experiment.starts, ASKED, prepared.plan.rules, complete=True)
            return decision.verdict, len(experiment.starts)
        task = replace(task, waves=(*task.waves, wave))


def in_one_go(starts: Sequence[CountedStart], rules: Rules) -> int:
    """How many of the starts a run makes that decides after each of them."""
    made = 0
    while next_arm(starts[:made], ASKED, rules):
        made += 1
    return made


# The verdicts by jobs, over the same starts, and of the run that stops at once; the starts of first and last.
Compared = tuple[Verdict, Verdict, Verdict, int, int]
_PART = 50


def part(first: int) -> list[Compared]:
    """The runs from this number on."""
    return list(compared(range(first, first + _PART)))


def compared(runs: range) -> Iterator[Compared]:
    """The runs of these numbers."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        template = prepared_in(Path(name))
        for number in runs:
            rules = replace(template.plan.rules, seed=number)
            prepared = replace(
                template,
                plan=replace(template.plan, rules=rules),
                pace=replace(template.pace, rules=rules),
            )
            starts = drawn(number, rules)
            rng = Random(f"{SEED} fates {number}")
            jobs, made = by_jobs(prepared, starts, rng, Path(name, "scratch"))
            same = decide(starts[:made], ASKED, rules, complete=True).verdict
            stop = in_one_go(starts, rules)
            at_once = decide(starts[:stop], ASKED, rules, complete=True).verdict
            yield jobs, same, at_once, made, stop


MOST_TIMES = 1.3


def timed(seconds: float) -> tuple[list[str], bool]:
    """How long ten starts take on five agents, and four here; each waits for so many seconds before it is ready."""
    root = Path(__file__).parents[1]
    sys.path.insert(0, str(root))
    from tests.support.cli import BARE, doctor
    from tests.support.stand_in_build import StandInBuild

    server = root / "tests" / "support" / "programs" / "serve_model.py"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [json.dumps({"id": f"r{n}", "body": {"prompt": f"p{n}", "temperature": 0}}) for n in range(4)]  # fmt: skip
        requests = "\n".join(lines) + "\n"
        (folder / "requests.jsonl").write_text(requests)
        front = f"{shlex.join([*BARE, str(server)])} {{port}} ready-after={seconds}"
        words = [
            *(
                "correctness",
                "--baseline",
                f"{front} {folder}",
                "--candidate",
                f"{front} flip {folder}",
            ),
            *("--requests", "requests.jsonl", "--passes", "1", "--budget", "30m"),
        ]
        began = time.monotonic()
        ran = doctor(*words, "--policy", "any", "--retries", "2", cwd=folder, timeout=1800)
        four = time.monotonic() - began
        four_made = json.loads((folder / "ci-doctor-report" / "report.json").read_text())
        assert sum(four_made["facts"].get("starts", {}).values()) == 4, ran
        line = shlex.join([sys.executable, "-m", "ci_doctor", *words, "--max-starts", "10", "--seed", "1", "--fan-out"])  # fmt: skip
        agents: dict[str, dict[str, str]] = {f"agent-{number}": {} for number in range(5)}
        build = StandInBuild(folder, line, agents, files={"requests.jsonl": requests})
        began = time.monotonic()
        last = build.run()
        ten = time.monotonic() - began
        report = json.loads((last.directory / "ci-doctor-report" / "report.json").read_text())
        assert sum(report["facts"]["starts"].values()) == 10, last
    return [
        f"- four starts of {seconds:g} s, one after the other: {four:.1f} s",
        (
            f"- ten starts of {seconds:g} s on five agents, in {len(build.jobs)} jobs: {ten:.1f} s, "
            f"{ten / four:.2f} times as long; {report['verdict']}"
        ),
    ], ten <= MOST_TIMES * four


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--timed", type=float, metavar="SECONDS")
    parser.add_argument("--record", action="store_true")
    chosen_options = parser.parse_args()
    if chosen_options.timed:
        lines, is_within = timed(chosen_options.timed)
        print("\n".join(lines))
        if chosen_options.record:
            load = f", load {os.getloadavg()[0]:.1f}"
            record("Ten starts on five agents", lines, load)
        return int(not is_within)
    rows: list[Compared] = []
    with multiprocessing.Pool() as pool:
        for done in pool.imap(part, range(0, chosen_options.runs, _PART)):
            rows += done
            alike = sum(jobs is same for jobs, same, *_ in rows)
            print(f"\r{len(rows):,} runs, {alike:,} alike", end="", file=sys.stderr)
    print(file=sys.stderr)
    same = sum(jobs is alike for jobs, alike, *_ in rows)
    others = Counter((at_once, jobs) for jobs, _, at_once, *_ in rows if jobs is not at_once)
    greener = sum(n for (one, jobs), n in others.items() if is_green(jobs) > is_green(one))
    by_job = sum(row[3] for row in rows) / len(rows)
    alone = sum(row[4] for row in rows) / len(rows)
    lines = [
        f"- the verdict of a run that made the same starts: {same:,} of {len(rows):,}",
        f"- the verdict of a run that may stop within a block: {len(rows) - others.total():,}",
        *(f"  - {one} becomes {jobs}: {n}" for (one, jobs), n in others.most_common()),
        f"- green by jobs alone: {greener}",
        f"- starts on average: {by_job:.2f} in jobs, {alone:.2f} one after the other",
    ]
    print("\n".join(lines))
    if chosen_options.record:
        record("Evidence of jobs, and the same starts of one run", lines)
    return int(same < len(rows))


if __name__ == "__main__":
    raise SystemExit(main())
