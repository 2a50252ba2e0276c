# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness replay`: one request of a run that has ended, or was killed, from its samples."""

import json
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.load.canonical import digest
from tests.support.cli import Ran, inside

pytestmark = pytest.mark.integration


def said(token: str, text: str = "one\ttwo ") -> dict[str, Any]:
    other = "y" if token == "x" else "x"
    logprobs = {
        "tokens": [text, token],
        "token_logprobs": [-0.25, -0.70],
        "top_logprobs": [{text: -0.25, "z": -3.0}, {token: -0.70, other: -0.75}],
    }
    return {
        "choices": [
            {"index": 0, "text": text + token, "logprobs": logprobs, "finish_reason": "stop"}
        ],
        "completion_tokens": 2,
    }


def sample(
    name: str, identity: str, output: dict[str, Any] | None, number: int = 1, **more: Any
) -> dict[str, Any]:
    arm = "baseline" if name[0] == "A" else "candidate"
    told = (
        {"output": output, "digest": digest(output)}
        if output
        else {"error": "HTTP 500: out of \x1b[31mmemory"}
    )
    meta = {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    return {
        "arm": arm,
        "start": int(name[1:]),
        "pass": number,
        "id": identity,
        "status": 200,
        "meta": meta,
        **told,
        **more,
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run: r1 differs, r2 is the same, r3 has an error; the last line is torn, as a kill leaves it."""
    rows = [
        sample(name, identity, answer)
        for name, answers in {
            "A1": (said("x"), said("x"), said("x")),
            "B1": (said("y"), said("x"), None),
            "A2": (said("x"), said("x"), said("x")),
        }.items()
        for identity, answer in zip(("r1", "r2", "r3"), answers, strict=True)
    ]
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)) + '\n{"arm": "basel')
    return directory


def replay(run: Path, *more: str, env: dict[str, str | None] | None = None) -> Ran:
    return inside("correctness", "replay", "--run", "run", *more, cwd=run.parent, env=env)


def test_a_request_is_shown_with_both_texts_and_the_numbers(run: Path) -> None:
    ran = replay(run, "--request", "r1")

    assert ran.code == 0, ran
    assert ran.out == (
        "request r1: changed: the baseline is always the same; the candidate is never the\n"
        "same as it\n"
        "\n"
        "Answers\n"
        "  a  A1 A2  2 tokens, stop  one⇥two x\n"
        "  b  B1     2 tokens, stop  one⇥two y\n"
        "\n"
        "A1 against B1, pass 1\n"
        "  diverge at token 1 of text: near-tie, 0.05 nat apart\n"
        "  A1  one⇥two [x]\n"
        "  B1  one⇥two [y]\n"
        "\n"
        "Log-probabilities\n"
        "       A1        logprob    B1        logprob    ULP\n"
        "  0    one⇥two·  -0.250000  one⇥two·  -0.250000    0\n"
        "  > 1  x         -0.700000  y         -0.700000\n"
        "       y         -0.750000  x         -0.750000\n"
        "\n"
        "Beside the answer\n"
        "                     A1    B1\n"
        "  status             200   200\n"
        "  finish_reason      stop  stop\n"
        "  prompt_tokens      7     7\n"
        "  completion_tokens  2     2\n"
    )
    assert "1 lines of the samples cannot be read" in ran.err


def test_an_error_stands_beside_the_answers_and_cannot_act_on_the_terminal(run: Path) -> None:
    ran = replay(run, "--request", "r3")

    assert ran.code == 0, ran
    assert "✗  B1     HTTP 500: out of \\x1b[31mmemory" in ran.out
    assert "\x1b" not in ran.out
    assert "missing" in ran.out


def test_passes_of_one_start_are_held_against_each_other(run: Path) -> None:
    rows = [sample("A1", "r1", said("x"), 1), sample("A1", "r1", said("y"), 2)]
    (run / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    for more in ((), ("--starts", "A1")):
        ran = replay(run, "--request", "r1", *more)
        assert ran.code == 0, ran
        assert "A1 pass 1 against A1 pass 2\n" in ran.out
        assert "  a  A1/1  2 tokens" in ran.out


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--request", "r11"), "did you mean `r1`?"),
        (("--request", "r1", "--starts", "A9"), "no start `A9`"),
        (("--request", "r1", "--starts", "A1,A2,B1"), "two starts can be compared"),
        (("--request", "r1", "--report-dir", "run"), "would be overwritten"),
    ],
)
def test_what_cannot_be_shown_is_a_usage_error_with_a_hint(
    run: Path, more: tuple[str, ...], told: str
) -> None:
    ran = replay(run, *more)

    assert ran.code == 2, ran
    assert told in ran.err


def test_a_secret_of_the_environment_is_not_shown(run: Path) -> None:
    rows = [sample("A1", "r1", said("x", "sk-4242-do-not-tell "))]
    (run / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    ran = replay(run, "--request", "r1", env={"API_TOKEN": "sk-4242-do-not-tell"})

    assert ran.code == 0, ran
    assert "sk-4242" not in ran.out
