# SPDX-License-Identifier: Apache-2.0
"""Acts on a folder: a copy of vLLM's environment with a fault, `ci-doctor correctness` with it, and what float64 says of both arms.

The copy is made of hard links, and the patched file is a new one in it: the original is never written.
"""

import itertools
import json
import os
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

from ci_doctor.correctness.settings import Rules
from real_servers import place
from real_servers.environments import home
from real_servers.experiments import Experiment
from real_servers.faults import Fault
from real_servers.readings import Answer, Answers, Start, answers
from real_servers.requests import as_file
from real_servers.resampling import Outcomes, Recorded, resampled
from real_servers.running import ROUNDING, configured, correctness, exactly

TABLE = "faults"
# Two threads on two busy processors wait for each other at every sum.
ENVIRON = {**place.ENVIRON, "OMP_NUM_THREADS": "1"}
# vLLM keeps what it has found out about the model's class, and no answer. The folders of the arms are their own.
_SETTINGS = {"caches": "as-is", "shared": ["*"]}
RUNS = 400
# After so many candidate starts the printed bound is 98, 71 and 31 %.
STARTS = (1, 3, 10)
RATE = 1 / 3
# How often the printed bound may be untrue, and what of a reading rounding explains.
_ERROR = 0.05
_LIMITS = {"choice": ROUNDING["float32"], "numbers": ROUNDING["float32"], "text": 0}


def planted(fault: Fault, original: str = place.VLLM) -> str:
    """The name of a copy of the environment with the fault; whatever was there is replaced.

    Raises PatchError, MissingEnvironmentError.
    """
    name = f"planted/{fault.name}"
    prefix = place.interpreter(original).parent.parent
    copy = home() / name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(prefix, copy, symlinks=True, copy_function=os.link)
    [package] = copy.glob("lib/python*/site-packages/vllm")
    file = package / fault.file
    text = fault.patched(file.read_text(), original)
    # Not written in place: the bytes are those of the original.
    file.unlink()
    file.write_text(text)
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()
    return name


def run(fault: Fault) -> dict[str, Any]:
    """The row of a fault; the one that is kept if it has ended before.

    Raises PatchError, MissingEnvironmentError, and RuntimeError if the command wrote no report.
    """
    kept = place.kept_row(TABLE, fault.name)
    if kept is not None:
        return kept
    folder = place.folder_of(TABLE, fault.name)
    if not (folder / "report" / "report.json").exists():
        measure(fault, folder)
    loads = folder / "load.json"
    row = reading(fault, folder) | {
        "load": json.loads(loads.read_text()) if loads.exists() else [], "right": sorted(fault.arms.right),
        "source": fault.source, "seen": fault.seen, "environment": place.VLLM,
    }  # fmt: skip
    row["problems"] = problems(fault, row)
    place.keep_row(TABLE, fault.name, row)
    return row


def measure(fault: Fault, folder: Path) -> None:
    """One run of the command, with the machine's load before and after in `load.json`."""
    environment = planted(fault)
    try:
        (folder / "requests.jsonl").write_text(as_file(fault.arms.requests))
        (folder / "ci-doctor.toml").write_text(
            configured(fault.experiment, folder, environment, ENVIRON, _SETTINGS)
        )
        with place.machine():
            before = place.load()
            correctness(folder)
            (folder / "load.json").write_text(json.dumps([before, place.load()]))
    finally:
        shutil.rmtree(home() / environment, ignore_errors=True)


def reading(fault: Fault, folder: Path) -> dict[str, Any]:
    """What the report says, and what float64 says of both arms."""
    report = json.loads((folder / "report" / "report.json").read_text())
    lines = (folder / "report" / "samples.jsonl").read_text().splitlines()
    given = answers(lines)
    divergence = report["facts"]["divergence"]
    return drawn(fault, given) | {
        "verdict": report["verdict"],
        "summary": report["summary"],
        "code": report["exit_code"],
        "seconds": round(report["duration_s"]),
        "starts": len(report["attempts"]),
        "levels": {each["level"]: each["differing"] for each in report["facts"]["levels"]},
        "divergence": divergence,
        "findings": [
            [each["severity"], each["rule"], each["summary"]] for each in report["findings"]
        ],
        "exact": exact(fault.arms, folder, given),
    }


def exact(arms: Experiment, folder: Path, given: Answers) -> dict[str, dict[str, float]]:
    """By arm, over all its answers: how far a chosen token is below the best one (`choice`), how far its numbers are off.

    `text` counts the answers whose text is not that of their tokens.
    """
    lines = (folder / "requests.jsonl").read_text().splitlines()
    bodies = {line["id"]: line["body"] for line in map(json.loads, lines)}
    asked: dict[tuple[str, str, tuple[int, ...], str, tuple[float, ...]], Answer] = {}
    for request, starts in given.items():
        for one in itertools.chain.from_iterable(starts.values()):
            asked[request, one.arm, one.tokens, one.words, one.own] = one
    questions = [
        {"body": bodies[request], "answer": one.tokens, "stopped": one.words.endswith(" stop")}
        for (request, *_), one in asked.items()
    ]
    largest = {
        arm: {"choice": 0.0, "numbers": 0.0, "text": 0.0} for arm in ("baseline", "candidate")
    }
    for one, sound in zip(asked.values(), exactly(arms, questions), strict=True):
        arm = largest[one.arm]
        arm["choice"] = max(arm["choice"], *sound["below"])
        off = [abs(left - right) for left, right in zip(one.own, sound["own"], strict=False)]
        arm["numbers"] = max(arm["numbers"], *off)
        arm["text"] += one.words.rpartition(" ")[0] != sound["text"]
    return largest


def drawn(fault: Fault, given: Answers) -> dict[str, Any]:
    """What became of runs with the fault in one start of three, made of the starts that were recorded.

    Where every start of the candidate has the fault, the baseline's answers stand for those of a candidate without it.
    """
    of_start: dict[Start, dict[str, str]] = defaultdict(dict)
    for request, starts in given.items():
        sound = next((passes for (arm, _), passes in starts.items() if arm == "baseline"), [])
        for start, passes in starts.items():
            of_start[start][request] = repr(
                [outcome(one, first) for one, first in zip(passes, sound, strict=False)]
            )
    pools: dict[str, list[Outcomes]] = {"baseline": [], "sound": [], "faulty": []}
    for (arm, number), outcomes in of_start.items():
        has_fault = number in fault.planted if fault.rare else True
        pools[arm if arm == "baseline" else "faulty" if has_fault else "sound"].append(outcomes)
    differing = {
        kind: sum(each not in pools["baseline"] for each in pool) for kind, pool in pools.items()
    }
    recorded = Recorded(pools["baseline"], pools["sound"] or pools["baseline"], pools["faulty"])
    is_possible = fault.seen and recorded.baseline and recorded.faulty
    made = {
        least: resampled(recorded, RATE, Rules(least_candidates=least), RUNS)._asdict()
        for least in STARTS
        if is_possible
    }
    return {"faulty": len(pools["faulty"]), "differing": differing, "resampled": made}


def outcome(one: Answer, first: Answer) -> tuple[str, tuple[int, ...], bool]:
    """Words and tokens of an answer, and whether its numbers are those of the baseline's first start but for rounding."""
    off = [abs(left - right) for left, right in zip(one.own, first.own, strict=False)]
    return one.words, one.tokens, max(off, default=0.0) < ROUNDING["float32"]


def problems(fault: Fault, row: dict[str, Any]) -> list[str]:
    """What is wrong with a row; empty if nothing is."""
    wrong = []
    if row["verdict"] not in fault.arms.right:
        wrong.append(f"{row['verdict']} is not {' or '.join(sorted(fault.arms.right))}")
    if row["verdict"] == "regression" and not row["divergence"]:
        wrong.append("the report names no place where answers diverge")
    for arm, expected in (("baseline", ""), ("candidate", fault.seen)):
        off = [kind for kind, limit in _LIMITS.items() if row["exact"][arm][kind] > limit]
        if expected not in off if expected else off:
            wrong.append(
                f"float64 finds {off} wrong in the {arm}, and not {[expected]}: {row['exact'][arm]}"
            )
    return wrong + _of_starts(fault, row)


def _of_starts(fault: Fault, row: dict[str, Any]) -> list[str]:
    wrong = []
    if fault.seen and fault.always and row["differing"]["faulty"] < row["faulty"]:
        wrong.append(
            f"{row['differing']['faulty']} of {row['faulty']} starts with the fault answer otherwise"
        )
    if row["differing"]["sound"]:
        wrong.append(f"{row['differing']['sound']} starts without the fault answer otherwise")
    wrong += [
        f"{each['untrue']} of {each['runs']} drawn runs print a risk that is untrue"
        for each in row["resampled"].values()
        if each["untrue"] > _ERROR * each["runs"]
    ]
    return wrong
