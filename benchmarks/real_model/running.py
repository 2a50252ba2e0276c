# SPDX-License-Identifier: Apache-2.0
"""Acts on a folder: runs `ci-doctor correctness` for a pair, and the readings of its answers."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from real_model.pairs import LIMIT_NAT, Pair
from real_model.prompts import as_file
from real_model.readings import Answers, Reading, answers, reading

HERE = Path(__file__).resolve().parent
CONCURRENCY = 8
# On a machine with other work, threads that wait in a loop take each other's processor.
SLEEPING = 'env = { OMP_WAIT_POLICY = "passive" }'


class Level(NamedTuple):
    """What the report says at a level."""

    verdict: str
    differing: int


class Off(NamedTuple):
    """An arm's answers beside the sound model in float64, in nat at most.

    `numbers`: their log-probabilities. `choice`: how much less probable a chosen token is than the most probable one.
    """

    numbers: float
    choice: float


class Result(NamedTuple):
    """One run: what ci-doctor says, and what the two readings say."""

    pair: Pair
    verdict: str
    code: int
    starts: int
    seconds: float
    levels: dict[str, Level]
    nat: float
    again: Reading
    off: dict[str, Off]

    @property
    def problems(self) -> list[str]:
        """What is wrong; empty if nothing is."""
        found = []
        if self.verdict not in self.pair.right:
            found.append(f"{self.verdict} is not {' or '.join(sorted(self.pair.right))}")
        for level in ("words", "tokens") if self.pair.limit else ("words", "tokens", "numbers"):
            said, counted = self.levels[level].differing, getattr(self.again, level)
            if said != counted:
                found.append(f"{level}: {said} differ in the report, {counted} in samples.jsonl")
        if self.nat != self.again.nat:
            found.append(f"{self.nat} nat in the report, {self.again.nat} in samples.jsonl")
        # Without this the pair would not be the one that its name says.
        wrong = {"baseline": False, "candidate": self.pair.is_wrong}
        for arm, is_wrong in wrong.items():
            if (self.off[arm].numbers > LIMIT_NAT) != is_wrong:
                found.append(f"{arm}: {self.off[arm].numbers} nat off from float64")
        return found


class Place(NamedTuple):
    """Where everything is: the Python with torch, the folder, the weights and the requests."""

    python: Path
    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def requests(self) -> Path:
        return self.folder / "requests.jsonl"

    def prepare(self) -> None:
        """Write the weights and the requests."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.requests.write_text(as_file())
        program = "import sys, pathlib, model; model.make(pathlib.Path(sys.argv[1]))"
        words = [self.python, "-c", program, self.model]
        subprocess.run(words, check=True, cwd=HERE, stderr=subprocess.DEVNULL)

    def versions(self) -> str:
        """Of torch and transformers."""
        program = "import torch, transformers as t; print('torch', torch.__version__, 'transformers', t.__version__)"
        words = [self.python, "-c", program]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()

    def server(self, switches: str) -> str:
        words = [str(self.python), str(HERE / "server.py"), "--model", str(self.model)]
        return f"{shlex.join(words)} --port {{port}} {switches}".strip()


def run(pair: Pair, place: Place) -> None:
    """Raises RuntimeError if the process ends with another code than its report has."""
    folder = place.folder / pair.name
    folder.mkdir(exist_ok=True)
    (folder / "ci-doctor.toml").write_text(configured(pair, place))
    words = [sys.executable, "-m", "ci_doctor", "correctness", "--report-dir", "report"]
    with (folder / "stdout.txt").open("w") as output, (folder / "stderr.txt").open("w") as talk:
        ended = subprocess.run(words, cwd=folder, stdout=output, stderr=talk, check=False)
    code = report_of(pair, place)["exit_code"]
    if ended.returncode != code:
        raise RuntimeError(f"{pair.name} ended with {ended.returncode}, its report says {code}")


def report_of(pair: Pair, place: Place) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(
        (place.folder / pair.name / "report" / "report.json").read_text()
    )
    return report


def read(pair: Pair, place: Place) -> Result:
    """A run that was made, beside both readings.

    Raises FileNotFoundError without one, RuntimeError if its verdict rests on no answers.
    """
    report = report_of(pair, place)
    if not report["facts"]["levels"]:
        raise RuntimeError(f"{pair.name}: {report['verdict']}: {report['summary']}")
    samples = place.folder / pair.name / "report" / "samples.jsonl"
    found = answers(samples.read_text().splitlines())
    levels = {each["level"]: each for each in report["facts"]["levels"]}
    return Result(
        pair=pair,
        verdict=report["verdict"],
        code=report["exit_code"],
        starts=len(report["attempts"]),
        seconds=report["duration_s"],
        levels={name: Level(each["verdict"], each["differing"]) for name, each in levels.items()},
        nat=levels["numbers"]["largest_nat"] or 0.0,
        again=reading(found),
        off={arm: off(found, arm, place) for arm in ("baseline", "candidate")},
    )


def configured(pair: Pair, place: Place) -> str:
    """The configuration of a run."""
    lines = [
        f"[services.baseline]\ncommand = {json.dumps(place.server(pair.baseline))}\n{SLEEPING}\n",
        f"[services.candidate]\ncommand = {json.dumps(place.server(pair.candidate))}\n{SLEEPING}\n",
        f"[correctness]\nrequests = {json.dumps(str(place.requests))}",
        f'concurrency = {CONCURRENCY}\ncompare = "{pair.compare}"',
    ]
    if pair.limit:
        lines.append(f'limit = "{pair.limit}"')
    lines.append('\n[correctness.baseline]\nservices = ["baseline"]\n')
    lines.append('[correctness.candidate]\nservices = ["candidate"]')
    if pair.proof:
        lines.append(f'proof = [{{ metric = "{pair.proof}", above = 0 }}]')
    return "\n".join([*lines, ""])


def off(found: Answers, arm: str, place: Place) -> Off:
    """How far an arm's answers are off; those with the same tokens are computed once."""
    given = {
        request: [one for passes in starts.values() for one in passes if one.arm == arm]
        for request, starts in found.items()
    }
    asked = {request: sorted({one.tokens for one in each}) for request, each in given.items()}
    words = [place.python, HERE / "exact.py", "--model", place.model, "--requests", place.requests]
    made = subprocess.run(
        words, input=json.dumps(asked), text=True, check=True, cwd=HERE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    numbers = choice = 0.0
    for request, exact in json.loads(made.stdout).items():
        by_tokens = dict(zip(asked[request], exact, strict=True))
        for one in given[request]:
            sound = by_tokens[one.tokens]
            numbers = max(numbers, largest(one.own, sound["logprobs"]))
            choice = max(choice, largest(sound["best"], sound["logprobs"]))
    return Off(numbers, choice)


def largest(one: list[float] | tuple[float, ...], other: list[float]) -> float:
    return max(abs(left - right) for left, right in zip(one, other, strict=True))
