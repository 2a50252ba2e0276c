# SPDX-License-Identifier: Apache-2.0
"""Files of samples: what they hold, and what the survey calls the same. The fast way never contradicts the slow one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_doctor.correctness.collected.formats import SampleFormat, read
from ci_doctor.correctness.collected.survey import (
    HEADS,
    NoEvidenceError,
    Source,
    Survey,
    check,
    content,
    find,
    is_answer,
    records,
    sources,
    survey,
    token,
)
from ci_doctor.correctness.settings import Arm
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.load.canonical import digest
from tests.unit.correctness.collected.sample_files import response, responses, source, write
from tests.unit.correctness.report.recorded_runs import answer, line, write_run


def sides(
    directory: Path,
    left: Sequence[object],
    right: Sequence[object],
    form: SampleFormat = SampleFormat.RESPONSES,
) -> list[list[Source]]:
    """A file of each side with these lines."""
    lines = {Arm.BASELINE: left, Arm.CANDIDATE: right}
    return [[source(arm, write(directory / arm, each), form)] for arm, each in lines.items()]


def of(directory: Path, left: str, right: str) -> Survey:
    return survey(*sides(directory, responses(left), responses(right)))


def test_only_what_may_differ_keeps_its_positions(tmp_path: Path) -> None:
    found = of(tmp_path, "x y z", "x w z")

    assert (found.requests, found.passes, found.aligned) == (["c-0", "c-1", "c-2"], 1, "id")
    assert list(found.odd) == ["c-1"]
    placed = [start.record("c-1", 1) for start in found.starts]
    assert [each and each.line for each in placed] == [2, 2]


def test_files_in_another_order_are_aligned_by_id(tmp_path: Path) -> None:
    found = survey(*sides(tmp_path, responses("x y"), responses("x y")[::-1]))

    assert (found.aligned, list(found.odd)) == ("id", [])


def test_an_error_on_both_sides_is_odd(tmp_path: Path) -> None:
    assert list(of(tmp_path, "x -", "x -").odd) == ["c-1"]


def test_random_ids_are_aligned_by_line(tmp_path: Path) -> None:
    left = [response("p", "x"), response("q", "y")]
    right = [response("r", "x"), response("s", "z")]

    found = survey(*sides(tmp_path, left, right))

    assert (found.aligned, found.requests, list(found.odd)) == ("line", ["line 1", "line 2"], ["line 2"])  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [("", "", "no sample of the baseline"), ("x", "", "no sample of the candidate")],
)
def test_files_without_answers_are_no_evidence(
    tmp_path: Path, left: str, right: str, reason: str
) -> None:
    with pytest.raises(NoEvidenceError, match=reason):
        of(tmp_path, left, right)


def sample(arm: str, start: int, text: str) -> dict[str, object]:
    output = {"choices": [{"index": 0, "text": text}]}
    return {"arm": arm, "start": start, "pass": 1, "id": "r0", "output": output}


def test_a_file_of_both_arms_gives_each_side_its_own_starts(tmp_path: Path) -> None:
    path = write(tmp_path / "s", [sample("baseline", 1, "x"), sample("candidate", 1, "x"), sample("candidate", 2, "y")])  # fmt: skip

    found = survey(*([source(arm, path, SampleFormat.OURS)] for arm in Arm))

    assert [start.name for start in found.starts] == ["A1", "B1", "B2"]
    assert found.notes == ()


def test_a_file_of_the_other_arm_is_taken_whole_with_a_note(tmp_path: Path) -> None:
    left = [sample("baseline", 1, "x"), sample("baseline", 2, "x")]

    found = survey(*sides(tmp_path, left, left[:1], SampleFormat.OURS))

    assert [start.name for start in found.starts] == ["A1", "A2", "B1"]
    assert len(found.notes) == 1


def test_the_same_samples_on_both_sides_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", [sample("baseline", 1, "x"), sample("baseline", 2, "x")])

    with pytest.raises(UsageError, match="does not hold both arms"):
        survey(*[[source(arm, path, SampleFormat.OURS)] for arm in Arm])


def test_the_controls_of_a_run_are_not_compared(tmp_path: Path) -> None:
    x, y = answer("a", "x"), answer("a", "y")
    lines = [
        line("A1", "r0", x),
        line("A1", "control:r0", x, 0),
        line("B1", "r0", x),
        line("B1", "control:r0", y, 0),
    ]
    run = write_run(tmp_path / "run", *lines) / "samples.jsonl"
    a, b = (Source(arm=arm, path=run, form=SampleFormat.OURS) for arm in Arm)

    found = survey([a], [b])

    assert (found.requests, list(found.odd)) == (["r0"], [])


# Token texts that are keys of legacy `top_logprobs`, and look like what is masked.
TOKENS = st.sampled_from(
    ["id", "created", "choices", "digest", "meta", 'a"b', "\\", ": 1", "é", "Paris"]
)


def response_line(
    identity: str = "cmpl-1",
    created: int = 1,
    text: str = "Paris",
    top: dict[str, float] | None = None,
) -> bytes:
    said = {"index": 0, "text": text, "logprobs": {"top_logprobs": [top or {}]}}
    head = {"id": identity, "object": "text_completion", "created": created, "model": "m"}
    body = {**head, "choices": [{**said, "finish_reason": "length"}]}
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


def sample_line(
    arm: str = "baseline",
    meta: Any = None,
    text: str = "Paris",
    top: dict[str, float] | None = None,
) -> bytes:
    output = {"choices": [{"index": 0, "text": text, "logprobs": {"top_logprobs": [top or {}]}}]}
    line = {"arm": arm, "start": 1, "pass": 1, "id": "r0", "status": 200, "error": None}
    said = {"output": output, "digest": digest(output), "prompt_facts": {"model": "m"}}
    rest = {"empty": False, "meta": meta or {"id": "x"}}
    return json.dumps({**line, **said, **rest}).encode() + b"\n"


MAKERS = {SampleFormat.RESPONSES: response_line, SampleFormat.OURS: sample_line}


def fast_token(form: SampleFormat, line: bytes) -> bytes | None:
    match = HEADS[form].match(line)
    return token(form, line, match.end()) if match and is_answer(form, line) else None


def fast_same(form: SampleFormat, left: bytes, right: bytes) -> bool:
    mark = fast_token(form, left)
    return mark is not None and mark == fast_token(form, right)


def slow_same(form: SampleFormat, left: bytes, right: bytes) -> bool:
    one, other = read(form, left), read(form, right)
    return one.digest is not None and one.digest == other.digest


def test_what_differs_only_in_id_time_arm_and_meta_is_alike_without_being_read() -> None:
    one, other = response_line("cmpl-1", 1), response_line("cmpl-22", 1_760_000_000)
    assert fast_same(SampleFormat.RESPONSES, one, other)
    one = sample_line("baseline", {"id": "a"})
    other = sample_line("candidate", {"id": "bc", "created": 7})
    assert fast_same(SampleFormat.OURS, one, other)


@pytest.mark.parametrize("key", ["id", "created", "digest", "meta", "choices"])
@pytest.mark.parametrize("form", list(MAKERS))
def test_a_token_whose_text_is_a_masked_key_is_compared(form: SampleFormat, key: str) -> None:
    left, right = MAKERS[form](top={key: -1.0}), MAKERS[form](top={key: -2.0})

    assert not fast_same(form, left, right)
    assert not slow_same(form, left, right)


@pytest.mark.parametrize(
    "broken",
    [
        response_line().replace(b'"index":0', b'"index":0,,'),
        response_line().replace(b"Paris", b"Pa\xffris"),
        response_line().replace(b'"length"', b'"abort"'),
        response_line().replace(b'"model":"m"', b'"model":"m","error":{"message":"no"}'),
        response_line().replace(b"text_completion", b"error"),
        response_line().replace(b'"Paris"', b"NaN"),
        response_line()[:-10] + b"\n",
        sample_line().replace(b'"meta": {', b'"meta": {,'),
    ],
)
def test_a_broken_line_is_not_alike_even_to_itself(broken: bytes) -> None:
    form = SampleFormat.OURS if broken.startswith(b'{"arm"') else SampleFormat.RESPONSES

    assert not fast_same(form, broken, broken)
    assert read(form, broken).digest is None


def test_a_second_output_behind_the_meta_is_seen() -> None:
    honest = sample_line()
    crafted = honest[:-2] + b', "output": {"choices": [{"index": 0, "text": "Rome"}]}}\n'

    assert not fast_same(SampleFormat.OURS, honest, crafted)
    assert not slow_same(SampleFormat.OURS, honest, crafted)


def test_an_empty_answer_is_left_to_the_slow_way() -> None:
    assert not fast_same(SampleFormat.RESPONSES, response_line(text=""), response_line(text=""))
    assert read(SampleFormat.RESPONSES, response_line(text="")).empty


@given(
    form=st.sampled_from(list(MAKERS)),
    top=st.dictionaries(TOKENS, st.floats(-9, 0), max_size=3),
    other=st.dictionaries(TOKENS, st.floats(-9, 0), max_size=3),
    texts=st.tuples(st.sampled_from(["Paris", "id", ""]), st.sampled_from(["Paris", "id", ""])),
)
def test_two_answers_are_never_alike_unless_they_are_the_same(
    form: SampleFormat, top: dict[str, float], other: dict[str, float], texts: tuple[str, str]
) -> None:
    left, right = MAKERS[form](text=texts[0], top=top), MAKERS[form](text=texts[1], top=other)

    assert not fast_same(form, left, right) or slow_same(form, left, right)


PUT = [
    b"",
    b"x",
    b'"',
    b"{",
    b"}",
    b",",
    b":",
    b"1",
    b"\\",
    b'"id":"q",',
    b', "digest": "',
    b"\xff",
]
EDITS = st.tuples(st.integers(0, 400), st.integers(0, 4), st.sampled_from(PUT))


@given(
    form=st.sampled_from(list(MAKERS)),
    edits=st.lists(EDITS, min_size=1, max_size=3),
    both=st.booleans(),
)
def test_random_edits_never_make_different_answers_alike(
    form: SampleFormat, edits: list[tuple[int, int, bytes]], both: bool
) -> None:
    line = MAKERS[form](top={"id": -1.0, "created": -2.0})
    changed = line
    for at, removed, put in edits:
        changed = changed[:at] + put + changed[at + removed :]
    left = changed if both else line

    assert not fast_same(form, left, changed) or slow_same(form, left, changed)


def rows(directory: Path, *of_sides: Sequence[Sequence[str | None]]) -> Survey:
    """Rows of text with these ids, a file for each start of each side."""
    files = []
    for arm, starts in zip(Arm, of_sides, strict=True):
        of_arm = []
        for number, ids in enumerate(starts):
            lines = [{"text": "x"} if each is None else {"id": each, "text": "x"} for each in ids]
            path = write(directory / f"{arm}{number}", lines)
            of_arm.append(source(arm, path, SampleFormat.ROWS))
        files.append(of_arm)
    return survey(*files)


def test_requests_keep_their_order_and_a_missing_one_is_odd(tmp_path: Path) -> None:
    found = rows(tmp_path, [["b", "a"]], [["a", "b", "c"]])

    assert (found.requests, found.aligned, list(found.odd)) == (["b", "a", "c"], "id", ["c"])
    assert found.starts[0].record("c", 1) is None


def test_rows_without_ids_are_aligned_by_line(tmp_path: Path) -> None:
    assert rows(tmp_path, [[None]], [[None]]).aligned == "line"


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        (([["a"]], [["b", "c"]]), "no request id in common"),
        (([["a"], ["a"]], [["b"]]), "no request id in common"),
        (([[None]], [[None, None]]), "no ids"),
    ],
)
def test_files_that_cannot_be_aligned_are_no_evidence(
    tmp_path: Path, ids: tuple[list[list[str | None]], ...], reason: str
) -> None:
    with pytest.raises(NoEvidenceError, match=reason):
        rows(tmp_path, *ids)


def test_a_pass_that_cannot_be_is_refused_at_once(tmp_path: Path) -> None:
    lines = [{**sample("baseline", 1, "a"), "pass": number} for number in (1, 999_999_999)]
    with pytest.raises(NoEvidenceError, match="answers of pass 999999999, and of 2 passes in all"):
        survey(*sides(tmp_path, lines, lines, SampleFormat.OURS))


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["2.jsonl", "1.txt", "notes.md"], ["1.txt", "2.jsonl"]),
        (["samples.jsonl", "events.jsonl"], ["samples.jsonl"]),
    ],
    ids=["a directory", "a report directory"],
)
def test_a_directory_stands_for_its_files_of_samples(
    tmp_path: Path, names: list[str], found: list[str]
) -> None:
    for name in names:
        (tmp_path / name).write_text("x")

    assert [path.name for path in find(str(tmp_path))] == found


@pytest.mark.parametrize("path", ["-", "gone", "/dev/null"])
def test_what_cannot_be_read_twice_is_an_error_of_usage(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError):
        find(path if path != "gone" else str(tmp_path / path))


def test_the_format_is_that_of_the_first_line_that_shows_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ["broken", *responses("x")])

    assert [each.form for each in sources(Arm.BASELINE, str(path), None)] == [
        SampleFormat.RESPONSES
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\n\n", "is empty"),
        ("\nwhat\n", "in any known form; line 2: not JSON: Expecting value in column 1"),
        ('{"id": "a"}\n', "in any known form; line 1: "),
        ("[\n{}]\n", "is a JSON array: samples are one JSON object a line"),
    ],
)
def test_a_file_without_samples_is_no_evidence(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "a.txt").write_text(text)

    with pytest.raises(NoEvidenceError, match=reason):
        sources(Arm.BASELINE, str(tmp_path / "a.txt"), None)


def test_records_are_found_again_by_their_positions(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", responses("x y"))
    found = list(records(source(Arm.BASELINE, path)))

    assert [number for _, _, _, number in found] == [1, 2]
    for _, content_of_line, offset, _ in found:
        at = source(Arm.BASELINE, path), offset, len(content_of_line)
        assert content(*at) == content_of_line


def test_a_file_that_became_shorter_is_infrastructure(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    with pytest.raises(InfraError, match="became shorter"):
        content(source(Arm.BASELINE, tmp_path / "a"), 0, 9)


def test_formats_that_hold_other_things_do_not_compare(tmp_path: Path) -> None:
    a = source(Arm.BASELINE, write(tmp_path / "a", responses("x")))
    b = source(Arm.CANDIDATE, write(tmp_path / "b", responses("x")), SampleFormat.ROWS)

    with pytest.raises(UsageError, match="do not compare"):
        check([a], [b])
