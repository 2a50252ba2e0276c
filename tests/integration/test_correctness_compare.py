# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor correctness compare`, as a process, on files of every form."""

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from ci_doctor.load.canonical import digest
from tests.support.cli import Ran, inside

pytestmark = pytest.mark.integration


def compare(cwd: Path, *words: str) -> Ran:
    return inside("correctness", "compare", *words, cwd=cwd)


def verdict(cwd: Path, *words: str) -> tuple[int, dict[str, Any]]:
    ran = compare(cwd, *words, "--json")
    return ran.code, json.loads(ran.out)


def write(path: Path, lines: Iterable[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines)
    )


def response(number: int, text: str, identity: str | None = None) -> dict[str, Any]:
    return {
        "id": identity or f"cmpl-{number}",
        "object": "text_completion",
        "created": 1000 + number,
        "model": "m",
        "choices": [{"index": 0, "text": text, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }


def responses(texts: Sequence[str], prefix: str = "cmpl") -> list[dict[str, Any]]:
    return [response(number, text, f"{prefix}-{number}") for number, text in enumerate(texts)]


def samples(arm: str, texts: Sequence[str]) -> list[dict[str, Any]]:
    """The lines of samples.jsonl of one start."""
    made = []
    for number, text in enumerate(texts):
        output = {"choices": [{"index": 0, "text": text}]}
        head = {"arm": arm, "start": 1, "pass": 1, "id": f"r{number}", "status": 200, "error": None}
        said = {"output": output, "digest": digest(output), "prompt_facts": {}, "empty": False}
        made.append({**head, **said, "meta": {"id": f"{arm}-{number}"}})
    return made


SAME = ["Paris is nice", "Rome is old", "Oslo is cold"]
OTHER = ["Paris is nice", "Rome is new", "Oslo is cold"]


def test_responses_with_other_ids_and_times_are_a_pass_by_line(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", responses(SAME, "x"))
    write(tmp_path / "b.jsonl", [{**each, "created": 9} for each in responses(SAME, "y")])

    code, report = verdict(tmp_path, "a.jsonl", "b.jsonl")

    assert (code, report["verdict"], report["facts"]["aligned_by"]) == (0, "pass", "line")
    assert report["facts"]["kinds"]["equal"] == 3


@pytest.mark.parametrize(
    ("texts", "model", "rule"),
    [
        (["same"] * 3, "m", "one-answer"),
        (["\n", " ", "word"], "m", "blank-answers"),
        (SAME, "another", "other-model"),
    ],
)
def test_equal_answers_that_show_little_are_a_pass_with_a_warning(
    tmp_path: Path, texts: Sequence[str], model: str, rule: str
) -> None:
    write(tmp_path / "a.jsonl", responses(texts))
    write(tmp_path / "b.jsonl", [{**each, "model": model} for each in responses(texts)])
    code, report = verdict(tmp_path, "a.jsonl", "b.jsonl")
    assert code == 0
    assert [finding["rule"] for finding in report["findings"]] == [f"correctness/{rule}"]


def test_one_start_a_side_that_differs_is_inconclusive_and_says_where_and_what_would_settle_it(
    tmp_path: Path,
) -> None:
    write(tmp_path / "a.jsonl", responses(SAME))
    write(tmp_path / "b.jsonl", responses(OTHER))

    ran = compare(tmp_path, "a.jsonl", "b.jsonl")

    assert ran.code == 86, ran
    assert "request cmpl-1: A1 against B1, character 8 of text" in ran.out
    assert "[old]" in ran.out
    assert "[new]" in ran.out
    assert "collect 5 baseline and 5 candidate starts in turn" in " ".join(ran.out.split())


def test_starts_in_no_known_order_are_a_regression_only_if_time_is_said_to_play_no_part(
    tmp_path: Path,
) -> None:
    for number in range(5):
        write(tmp_path / "A" / f"{number}.jsonl", responses(SAME))
    for number in range(3):
        write(tmp_path / "B" / f"{number}.jsonl", responses(OTHER))

    code, report = verdict(tmp_path, "A", "B")

    assert (code, report["verdict"]) == (86, "inconclusive")
    assert "nothing records the order of the starts" in report["summary"]
    (finding,) = report["findings"]
    assert "in turn (A B B A" in finding["remedy"]

    code, report = verdict(tmp_path, "A", "B", "--exchangeable")

    assert (code, report["verdict"]) == (1, "regression")
    assert report["facts"]["test"]["disputed"] == ["cmpl-1"]
    assert report["facts"]["clusters"] == [["A1", "A2", "A3", "A4", "A5"], ["B1", "B2", "B3"]]


def test_a_baseline_that_differs_from_itself_is_flaky(tmp_path: Path) -> None:
    write(tmp_path / "A" / "1.jsonl", responses(SAME))
    write(tmp_path / "A" / "2.jsonl", responses(OTHER))
    write(tmp_path / "B" / "1.jsonl", responses(SAME))

    code, report = verdict(tmp_path, "A", "B")

    assert (code, report["verdict"]) == (0, "flaky")
    assert verdict(tmp_path, "A", "B", "--fail-on-flaky")[0] == 7


def test_a_stored_digest_is_not_believed(tmp_path: Path) -> None:
    other = samples("candidate", OTHER)
    write(tmp_path / "a.jsonl", samples("baseline", SAME))
    told = {**other[1], "digest": samples("candidate", SAME)[1]["digest"]}
    write(tmp_path / "b.jsonl", [told, other[0], other[2]])

    code, report = verdict(tmp_path, "a.jsonl", "b.jsonl")

    assert (code, report["facts"]["kinds"]["changed"]) == (86, 1)


def test_text_blocks_differ_by_one_character_and_not_by_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("c-WJidmXp_0:\nParis\nNote: old\n\nc-WJidmXp_1:\nRome\n")
    (tmp_path / "b.txt").write_text("c-WJidmXp_1:\nRome\nc-WJidmXp_0:\nParis\nNote: old\n\n")
    (tmp_path / "c.txt").write_text("c-WJidmXp_1:\nRome\nc-WJidmXp_0:\nParis\nNote: old\n")

    code, report = verdict(tmp_path, "a.txt", "b.txt")
    other, changed = verdict(tmp_path, "a.txt", "c.txt")

    assert (code, report["facts"]["files"]["A1"]["format"]) == (0, "lmcache")
    assert (other, changed["facts"]["kinds"]["changed"]) == (86, 1)


ERROR = {"id": "cmpl-1", "error": {"message": "no"}}
GOOD = responses(SAME)


PROVE_NOTHING: dict[str, list[Any]] = {
    "error": [GOOD[0], ERROR, GOOD[2]],
    "unparsable": [GOOD[0], "{broken", GOOD[2]],
    "twice": [GOOD[0], GOOD[0], GOOD[2]],
    "no choices": [{**each, "choices": []} for each in GOOD],
    "empty texts": responses(["", "", ""]),
    "error messages": responses([f"Error: request {n} failed: CUDA error" for n in range(3)]),
    "empty file": [],
    "unknown": ["what is this"],
    "blank": ["", ""],
}


@pytest.mark.parametrize("kind", PROVE_NOTHING)
@pytest.mark.gate(3)
def test_what_proves_nothing_is_void_even_where_both_sides_are_alike(
    tmp_path: Path, kind: str
) -> None:
    write(tmp_path / "a.jsonl", PROVE_NOTHING[kind])
    shutil.copy(tmp_path / "a.jsonl", tmp_path / "b.jsonl")

    ran = compare(tmp_path, "a.jsonl", "b.jsonl", "--report-dir", "report")

    assert ran.code == 86, ran
    assert json.loads((tmp_path / "report" / "report.json").read_text())["verdict"] == "void"


@pytest.mark.parametrize(
    "ids", [["cmpl-0", "cmpl-1"], ["cmpl-0", "cmpl-1", "cmpl-9"]], ids=["fewer", "another"]
)
def test_a_missing_answer_is_never_agreement(tmp_path: Path, ids: list[str]) -> None:
    write(tmp_path / "a.jsonl", GOOD)
    write(
        tmp_path / "b.jsonl",
        [{**each, "id": identity} for each, identity in zip(GOOD, ids, strict=False)],
    )

    assert verdict(tmp_path, "a.jsonl", "b.jsonl")[0] == 86
    assert verdict(tmp_path, "b.jsonl", "a.jsonl")[0] == 86


def test_servers_that_were_not_asked_the_same_are_void(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", GOOD)
    write(
        tmp_path / "b.jsonl",
        [{**each, "usage": {"prompt_tokens": 4, "completion_tokens": 2}} for each in GOOD],
    )

    code, report = verdict(tmp_path, "a.jsonl", "b.jsonl")

    assert (code, report["verdict"]) == (86, "void")
    assert "received different prompts" in report["summary"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a.jsonl", "gone.jsonl"), "no such file: gone.jsonl"),
        (("a.jsonl", "-"), "no such file: -"),
        (("a.jsonl", "nothing"), "no *.jsonl or *.txt in nothing"),
        (("a.jsonl", "a.jsonl"), "both sides name a.jsonl"),
        (("a.jsonl", "b.txt"), "do not compare"),
        (("a.jsonl", "a2.jsonl", "--format", "respones"), "did you mean `responses`?"),
        (("a.jsonl", "a2.jsonl", "--alpha", "nan"), "'--alpha': nan is not in the range 0<x<1"),
    ],
)
@pytest.mark.gate(2)
def test_a_wrong_command_line_is_an_error_of_usage(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "nothing").mkdir()
    write(tmp_path / "a.jsonl", GOOD)
    write(tmp_path / "a2.jsonl", GOOD)
    (tmp_path / "b.txt").write_text("a_0:\nx\n")

    ran = compare(tmp_path, *words)

    assert ran.code == 2, ran
    assert said in " ".join(ran.err.split())


def test_the_report_directory_holds_a_case_for_each_request(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", GOOD)
    write(tmp_path / "b.jsonl", responses(OTHER))

    compare(tmp_path, "a.jsonl", "b.jsonl", "--report-dir", "report", "--junit", "requests")

    tests = ET.parse(tmp_path / "report" / "junit.xml").getroot().findall(".//testcase")
    failed = {case.get("name") for case in tests if case.find("error") is not None}
    assert {case.get("name") for case in tests} == {"cmpl-0", "cmpl-1", "cmpl-2"}
    assert failed == {"cmpl-1"}
