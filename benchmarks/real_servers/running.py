# SPDX-License-Identifier: Apache-2.0
"""Acts on a folder: runs `ci-doctor correctness` for an experiment, and reads its answers twice more.

One reading takes samples.jsonl with no code of ci-doctor: as many requests must differ at each level. The other asks the
same weights in float64 how probable each answer is: an arm is sound if no token that it chose is further below the most
probable one than rounding explains.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci_doctor.model.exit_code import ExitCode
from real_servers import place
from real_servers.experiments import NOT_RED, Experiment
from real_servers.readings import Answers, answers, reading
from real_servers.requests import as_file

# By how much rounding may let a less probable token win, in nat; float32 gave 2e-5 at most, bfloat16 0.1.
ROUNDING = {"float32": 0.001, "bfloat16": 0.35}
CONCURRENCY = 8


def run(experiment: Experiment) -> dict[str, Any]:
    """The row of an experiment; the one that is kept if it has ended before.

    Raises MissingEnvironmentError, and RuntimeError if the command wrote no report.
    """
    kept = place.kept_row("experiments", experiment.name)
    if kept is not None:
        return kept
    folder = place.folder_of("experiments", experiment.name)
    (folder / "requests.jsonl").write_text(as_file(experiment.requests))
    (folder / "ci-doctor.toml").write_text(configured(experiment, folder))
    with place.machine():
        before, began = place.load(), time.monotonic()
        code = correctness(folder)
        seconds, after = time.monotonic() - began, place.load()
    row = read(experiment, folder) | {
        "code": code, "seconds": round(seconds), "load": [before, after],
        "right": sorted(experiment.right), "environment": place.VLLM,
    }  # fmt: skip
    row["problems"] = problems(experiment, row)
    place.keep_row("experiments", experiment.name, row)
    return row


def correctness(folder: Path) -> int:
    """Run the command in the folder, with its output in files; its exit status, which is that of its report.

    A run that was cut off goes on, unless ci-doctor refuses that: its version or the settings are others.
    """
    is_begun = (folder / "report" / "run.json").exists()
    code = _correctness(folder, *(["--resume", "report"] if is_begun else []))
    if code == ExitCode.USAGE:
        shutil.rmtree(folder / "report", ignore_errors=True)
        code = _correctness(folder)
    written = folder / "report" / "report.json"
    if (
        code == ExitCode.USAGE
        or not written.exists()
        or json.loads(written.read_text())["exit_code"] != code
    ):
        raise RuntimeError(f"{folder}: no report of exit {code}; read stderr.txt")
    return code


def _correctness(folder: Path, *more: str) -> int:
    words = [sys.executable, "-m", "ci_doctor", "correctness", "--report-dir", "report", *more]
    # What the agent of a job sets would send the report elsewhere.
    environ = {name: value for name, value in os.environ.items() if "BUILDKITE" not in name}
    with (folder / "stdout.txt").open("w") as output, (folder / "stderr.txt").open("w") as talk:
        ended = subprocess.run(
            words, cwd=folder, env=environ, stdout=output, stderr=talk, check=False
        )
    return ended.returncode


def configured(
    experiment: Experiment,
    folder: Path,
    candidate: str = place.VLLM,
    environ: Mapping[str, str] = place.ENVIRON,
    settings: Mapping[str, object] = {},
) -> str:
    """The configuration of a run. `candidate` names the environment of that arm, `environ` has the variables of both.

    `settings` are further keys of [correctness].
    """
    lines = []
    for arm in ("baseline", "candidate"):
        own, environment = {}, place.VLLM
        if arm == "candidate":
            own, environment = dict(experiment.environ), candidate
        lines += [
            f"[services.{arm}]",
            f"command = {json.dumps(command(experiment, arm, folder, environment))}",
            'ready = "/health"',
            "start_timeout = 900",
            f"env = {{ {', '.join(f'{name} = {json.dumps(value)}' for name, value in {**environ, **own}.items())} }}",
            "",
        ]
    lines += [
        "[correctness]",
        'requests = "requests.jsonl"',
        f"concurrency = {CONCURRENCY}",
        f'compare = "{experiment.compare}"',
        f"localise = {json.dumps(experiment.localise)}",
        'budget = "60m"',
    ]
    lines += [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    if experiment.candidates > 1:
        lines.append(f"min_candidate_starts = {experiment.candidates}")
    if experiment.limit:
        lines.append(f'limit = "{experiment.limit}"')
    lines += ["", "[correctness.baseline]", 'services = ["baseline"]', ""]
    lines += ["[correctness.candidate]", 'services = ["candidate"]']
    if experiment.proof:
        lines.append(f'proof = [{{ metric = "{experiment.proof}", above = 0 }}]')
    return "\n".join([*lines, ""])


def command(experiment: Experiment, arm: str, folder: Path, environment: str = place.VLLM) -> str:
    """The command line of one arm."""
    flags = experiment.baseline if arm == "baseline" else experiment.candidate
    common = [f"--dtype {experiment.dtype}"] if experiment.dtype else []
    common += ["--enforce-eager"] if experiment.eager or arm == "baseline" else []
    places = {"{models}": str(place.home() / "models"), "{run}": str(folder)}
    if "{models}" in flags:
        place.model("lora-a")
        place.model("lora-b")
    for name, path in places.items():
        flags = flags.replace(name, path)
    return place.vllm(" ".join([*common, flags]), experiment.model, environment)


def read(experiment: Experiment, folder: Path) -> dict[str, Any]:
    """What the report says, and what both readings say."""
    report = json.loads((folder / "report" / "report.json").read_text())
    facts = report["facts"]
    lines = (folder / "report" / "samples.jsonl").read_text().splitlines()
    given = answers(lines)
    again = reading(given)
    localised = [
        each["summary"] for each in report["findings"] if each["rule"] == "correctness/localised"
    ]
    return {
        "verdict": report["verdict"],
        "summary": report["summary"],
        "starts": len(report["attempts"]),
        "unanswered": sum(json.loads(line)["output"] is None for line in lines),
        "levels": {each["level"]: each["differing"] for each in facts["levels"]},
        "again": {
            "words": again.words,
            "tokens": again.tokens,
            "numbers": again.numbers,
            "nat": again.nat,
        },
        "below": below_best(experiment, folder, given),
        "sensitivity": facts["sensitivity"],
        "findings": [
            [each["severity"], each["rule"], each["summary"]] for each in report["findings"]
        ],
        "localised": localised,
        "terminal_lines": len((folder / "stdout.txt").read_text().splitlines()),
    }


def below_best(experiment: Experiment, folder: Path, given: Answers) -> dict[str, float] | None:
    """By arm: how far a chosen token is below the most probable one in float64, in nat at most; None if they are drawn."""
    lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    if any(line["body"]["temperature"] for line in lines):
        return None
    bodies = {line["id"]: line["body"] for line in lines}
    asked = sorted(
        {
            (request, one.arm, one.tokens)
            for request, starts in given.items()
            for passes in starts.values()
            for one in passes
        }
    )
    questions = [{"body": bodies[request], "answer": answer} for request, _, answer in asked]
    largest = {"baseline": 0.0, "candidate": 0.0}
    for (_, arm, _), exact in zip(asked, exactly(experiment, questions), strict=True):
        largest[arm] = max(largest[arm], *exact["below"])
    return largest


def exactly(experiment: Experiment, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What exact.py answers to each question."""
    words: list[object] = [
        place.interpreter(),
        place.HERE / "exact.py",
        "--model",
        place.model(experiment.model),
    ]
    if "--enable-lora" in experiment.candidate:
        words += [
            "--adapter",
            f"a={place.model('lora-a')}",
            "--adapter",
            f"b={place.model('lora-b')}",
        ]
    made = subprocess.run(
        [str(word) for word in words], input=json.dumps(questions), text=True, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    given: list[dict[str, Any]] = json.loads(made.stdout)
    return given


def problems(experiment: Experiment, row: dict[str, Any]) -> list[str]:
    """What is wrong with a row; empty if nothing is."""
    wrong = []
    if row["verdict"] not in experiment.right:
        wrong.append(f"{row['verdict']} is not {' or '.join(sorted(experiment.right))}")
    # The second reading knows answers alone: for the report a request without one differs.
    said, counted = {} if row["unanswered"] else row["levels"], row["again"]
    wrong += [
        f"{level}: {said[level]} in the report, {counted[level]} in samples.jsonl"
        for level in ("words", "tokens")
        if said and said[level] != counted[level]
    ]
    if row["below"] and experiment.right <= NOT_RED:
        limit = ROUNDING[experiment.dtype]
        wrong += [
            f"{arm}: {gap:.2g} nat below the best token"
            for arm, gap in row["below"].items()
            if gap > limit
        ]
    return wrong
