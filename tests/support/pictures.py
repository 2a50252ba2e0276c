# SPDX-License-Identifier: Apache-2.0
"""Reports of a correctness run with everything that a page can draw, made from a seed: the same each time."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from ci_doctor.model.outcome import Attempt, Report, Verdict
from tests.support.builders import a_report, sample_reports

CLEAN = "a bug that shows in less than 95% of starts can hide behind 1 clean candidate start (at 95% confidence)"
Classes = list[int | None]


def matrix(starts: Sequence[str], requests: Mapping[str, tuple[str, Classes]]) -> dict[str, Any]:
    """The fact of that name: `requests` gives each id its kind and its classes; a lower-case start is archived."""
    return {
        "starts": [
            {
                "name": name,
                "arm": "baseline" if name[0] in "Aa" else "candidate",
                "archived": name[0] == "a",
                "ok": True,
                "answered": sum(classes[place] is not None for _, classes in requests.values()),
            }
            for place, name in enumerate(starts)
        ],
        "requests": [
            {"id": id_, "kind": kind, "classes": classes}
            for id_, (kind, classes) in requests.items()
        ],
    }


def aligned(request: str = "r17", **changes: Any) -> dict[str, Any]:
    """One pair of texts that part at a near-tie; `changes` replace its keys."""
    return {
        "request": request,
        "kind": "flaky",
        "starts": ["A1", "A2"],
        "pass": 1,
        "field": "text",
        "gap": 0.0022,
        "unit": "token",
        "position": 37,
        "hardness": "near-tie",
        "before": "Water boils at a lower temperature on a mountain because the pressure of the air above it is lower. At",
        "left": " sea level it boils at 100 °C;\n\ton a mountain of 3000 m at about 90 °C.",
        "right": " sea level it boils at 100 °C.\nOn a mountain of 3000 m it boils at about 90 °C.",
        "logprobs": [
            {"at": 35, "left": [[" 100", -0.0123], [" about", -4.51]], "right": [[" 100", -0.01231], [" about", -4.5]], "ulp": 2},
            {"at": 36, "left": [[" °C", -0.113], ["°", -2.31]], "right": [[" °C", -0.11304], ["°", -2.309]], "ulp": 5},
            {"at": 37, "left": [[";\n", -0.6921], [".", -0.6943]], "right": [[".", -0.6925], [";\n", -0.6937]], "ulp": 41},
            {"at": 38, "left": [["\t", -0.21], ["On", -1.7]], "right": [["\n", -0.31], [" On", -1.4]], "ulp": None},
        ],
        **changes,
    }  # fmt: skip


def pictures() -> dict[str, Report]:
    """Two modes in four starts, a regression in eight, and a thousand requests that mostly differ."""
    return {"modes": modes(), "regression": regression(), "thousand": thousand()}


def modes() -> Report:
    """100 requests, four starts, two modes: 52 requests follow the mode, two are noise."""
    chance = random.Random(1)
    rows: dict[str, tuple[str, Classes]] = {}
    for number in range(100):
        flips = chance.random() < 0.52
        rows[f"r{number}"] = ("flaky", [0, 1, 0, 1]) if flips else ("equal", [0, 0, 0, 0])
    rows["r3"] = ("flaky", [0, 1, 2, 0])
    rows["r61"] = ("unanswered", [None, None, 0, None])
    return a_report(
        Verdict.FLAKY,
        summary="The baseline differs from itself on 53 of 100 requests; the candidate shows nothing that it has not shown",
        findings=sample_reports()["flaky"].findings,
        tables=sample_reports()["flaky"].tables,
        reproduce="ci-doctor correctness --config ci-doctor.toml --retries 3 --only r3",
        attempts=_attempts(["A1", "A2", "A3", "B1"]),
        facts=_facts(
            matrix(["A1", "A2", "A3", "B1"], rows), chance, test=None, risk=CLEAN, settle=None
        ),
    )


def regression() -> Report:
    """100 requests, eight starts and two archived ones: two modes, three requests that the candidate alone changes."""
    chance = random.Random(2)
    starts = ["a1", "a2", "A1", "B1", "A2", "A3", "B2", "A4", "B3", "A5"]
    mode: Classes = [0, 0, 0, 1, 1, 0, 0, 0, 1, 0]
    rows: dict[str, tuple[str, Classes]] = {}
    for number in range(100):
        name = f"gsm8k/train-{number:04}"
        rows[name] = ("flaky", mode) if chance.random() < 0.3 else ("equal", [0] * len(starts))
    for name in list(rows)[40:43]:
        rows[name] = ("changed", [int(start[0] == "B") for start in starts])
    rows["gsm8k/train-0007"] = ("own", [0, 1, 0, 2, 1, 0, 3, 0, 2, 1])
    rows["gsm8k/train-0008"] = ("sometimes", [0, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    rows["gsm8k/train-0009"] = ("unanswered", [0, 0, 0, None, 0, 0, 0, 0, 0, 0])
    test = {
        "disputed": list(rows)[40:43],
        "p": 1 / 56,
        "smallest_p": 1 / 56,
        "labelings": 56,
        "alpha": 0.05,
        "level": 0.05,
    }
    sample = sample_reports()["regression"]
    return a_report(
        Verdict.REGRESSION,
        summary="The candidate never gives the baseline's answer to 3 of 100 requests, in 3 starts of 3",
        findings=sample.findings,
        tables=sample.tables,
        reproduce="ci-doctor correctness --config ci-doctor.toml --retries 3 --only gsm8k/train-0040",
        attempts=_attempts(starts[2:]),
        attachments=sample.attachments,
        facts=_facts(
            matrix(starts, rows),
            chance,
            test=test,
            risk="a candidate without any fault is called a regression in at most 5% of such experiments",
            settle=None,
        ),
    )


def thousand() -> Report:
    """1,000 requests, eight starts, no two alike: noise on most of them."""
    chance = random.Random(3)
    starts = ["A1", "B1", "A2", "A3", "B2", "A4", "B3", "A5"]
    rows: dict[str, tuple[str, Classes]] = {}
    for number in range(1000):
        classes: Classes = [0]
        for _ in starts[1:]:
            classes.append(
                chance.choice(range(max(map(_number, classes)) + 2)) if chance.random() < 0.6 else 0
            )
        rows[f"request-{number}"] = ("equal" if set(classes) == {0} else "own", classes)
    for number in range(0, 1000, 4):
        rows[f"request-{number}"] = ("equal", [0] * len(starts))
    return a_report(
        Verdict.NONDETERMINISTIC,
        summary="The baseline never repeats itself on 750 of 1000 requests: a bitwise test is possible on 250 of them",
        attempts=_attempts(starts),
        facts=_facts(
            matrix(starts, rows),
            chance,
            test=None,
            risk=None,
            settle="12 more starts, about 14 minutes, would settle it",
        ),
    )


def _number(answer: int | None) -> int:
    return answer or 0


def _facts(drawn: dict[str, Any], chance: random.Random, **decision: Any) -> dict[str, Any]:
    positions = [min(255, int(chance.lognormvariate(3.6, 0.9))) + 1 for _ in range(55)]
    return {
        "requests": len(drawn["requests"]),
        "commit": "9ee568e0c1d2a7f4",
        "matrix": drawn,
        "clusters": [["A1", "A3"], ["A2", "B1"]],
        "within": {start["name"]: 2 * (start["name"] == "B1") for start in drawn["starts"]},
        "divergence": {"unit": "token", "positions": [*positions, None]},
        "differences_by": {"near-tie": 49, "hard": 3, "length": 1, "missing": 1, "unknown": 0},
        "aligned": [
            aligned(
                "r3",
                hardness="hard",
                gap=1.7,
                field="message.content",
                kind="own",
                starts=["A1", "B1"],
            ),
            aligned(
                "r61",
                before="السعر هو",
                left=" 12 درهم",
                right=" 12\u200f درهم\u202e",
                unit="character",
                hardness="unknown",
                gap=None,
                logprobs=[],
            ),
            aligned(
                "r88",
                before="",
                left="caf\u00e9  au lait",
                right="cafe\u0301  au lait\x00",
                logprobs=[],
            ),
        ],
        "rare_bug_bound": 0.95 if decision["risk"] is CLEAN else None,
        "suspects": [
            "Equal within each start and not between them: a choice of kernels at the start, see `VLLM_ENABLE_V1_MULTIPROCESSING`.",
            "`libcublas.so.12` differs between the clusters.",
        ],
        "identity": {
            "facts": {
                "gpu": "NVIDIA H100 80GB HBM3",
                "model": "Qwen/Qwen3-0.6B",
                "vllm": "0.11.0",
                "driver": None,
            },
            "unknown": ["driver", "cudnn"],
            "differences": [
                {
                    "fact": "libcublas.so.12",
                    "values": {
                        "A1": "12.4.5.8",
                        "A2": "12.5.3.2",
                        "A3": "12.4.5.8",
                        "B1": "12.5.3.2",
                    },
                }
            ],
        },
        **decision,
    }


def _attempts(starts: Sequence[str]) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(
            name=f"{start} {'baseline' if start[0] == 'A' else 'candidate'}",
            outcome="answered 100/100",
            ok=True,
            duration_s=40 + 1.7 * number,
            log=f"logs/{start}/vllm-1.log",
        )
        for number, start in enumerate(starts)
    )
