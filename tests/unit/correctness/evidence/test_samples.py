# SPDX-License-Identifier: Apache-2.0
"""Tests of samples and their outputs."""

import gzip
import json
import resource
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.correctness.evidence.samples import (
    NO_PASS,
    Outputs,
    Sample,
    SamplePosition,
    SampleWriter,
    is_control,
    is_valid,
    read_line,
    read_lines,
)
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.load.canonical import digest
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.correctness.recording import output, sample

SECRET = "0.123456789"  # looks like a number


def written(path: Path, *samples: Sample, secrets: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    with SampleWriter(path, Redactor(secrets)) as writer:
        for each in samples:
            writer.write(each)
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def answer_of(**fields: Any) -> Sample:
    return Sample(arm="baseline", start=1, pass_=2, id="r0", **fields)


def test_a_sample_is_one_line_of_json(tmp_path: Path) -> None:
    (line,) = written(
        tmp_path / "new" / "samples.jsonl",
        answer_of(status=200, output={"a": "b\n\ud800\u2028"}, digest="d"),
    )
    assert (line["pass"], line["id"], line["output"]) == (2, "r0", {"a": "b\n\ud800\u2028"})


def test_samples_of_an_earlier_run_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    written(path, answer_of(), answer_of())
    assert len(written(path, answer_of())) == 1


def test_a_line_is_there_as_soon_as_it_is_written(tmp_path: Path) -> None:
    with SampleWriter(tmp_path / "samples.jsonl", Redactor(())) as writer:
        writer.write(answer_of())
        assert (tmp_path / "samples.jsonl").read_bytes().endswith(b"}\n")


def test_secrets_are_taken_out_of_texts_and_numbers_stay_numbers(tmp_path: Path) -> None:
    said = {"text": f"the key is {SECRET}", "logprob": float(SECRET)}
    (line,) = written(tmp_path / "samples.jsonl", answer_of(output=said), secrets=(SECRET,))
    assert line["output"] == {"text": "the key is [redacted]", "logprob": float(SECRET)}


def test_a_token_is_evidence_and_no_secret(tmp_path: Path) -> None:
    said = {"content": [{"token": " Paris", "logprob": -0.1}], "text": "password: 'abc'"}
    (line,) = written(
        tmp_path / "samples.jsonl", answer_of(output=said), secrets=("something-else",)
    )
    assert line["output"] == said


def test_a_place_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        written(tmp_path / "samples.jsonl")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_nobodys_fault() -> None:
    with pytest.raises(InfraError, match="No space left"):
        written(Path("/dev/full"), answer_of())


def test_a_line_can_be_found_again_where_it_was_said_to_stand(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with SampleWriter(path, Redactor(())) as writer:
        first, second = (writer.write(answer_of(output={"a": "é" * count})) for count in (1, 9))
    with SampleWriter(path, Redactor(()), append=True) as writer:
        third = writer.write(answer_of(error="no"))
    assert [place for place, _ in read_lines(path)] == [first, second, third]
    content = path.read_bytes()
    assert third == SamplePosition(
        offset=second.offset + second.length, length=len(content) - second.offset - second.length
    )
    assert read_line(content[second.offset :][: second.length]).output == {"a": "é" * 9}


def test_a_disk_that_takes_half_a_line_keeps_none_of_it(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with SampleWriter(path, Redactor(())) as writer:
        writer.write(answer_of(output={"a": "x"}))
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, before[1]))
        try:
            with pytest.raises(InfraError, match="File too large"):
                writer.write(answer_of(output={"a": "x" * 1000}))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert path.stat().st_size == size
        assert writer.write(answer_of(output={"a": "y"})).offset == size


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    said = answer_of(
        status=200,
        output={"a": "\ud800", "b": [1e-310, 2**70, None]},
        digest="d",
        prompt_facts={"prompt_tokens": 1},
    )
    written(path, said)
    ((_, line),) = read_lines(path)
    assert read_line(line) == said


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"{}", b"{}\n", b"[]\n", b'{"arm": 1}\n', b"\xff\xfe\n", b"[" * 100_000 + b"\n", b'{"a": 1' + b"0" * 5000 + b"}\n"],
)  # fmt: skip
def test_a_line_that_is_no_sample_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_line(line)


def test_a_sample_is_sound_by_its_digest_or_its_mark_of_redaction() -> None:
    said = {"text": "x"}
    assert is_valid(answer_of(error="HTTP 500"))
    assert is_valid(answer_of(output=said, digest=digest(said)))
    assert is_valid(answer_of(output={"text": "a [redacted] b"}, digest=digest(said)))
    assert not is_valid(answer_of(output={"text": "y"}, digest=digest(said)))
    assert not is_valid(answer_of(output={"text": "[redacted]"}))
    assert not is_valid(answer_of(output={"number": float("inf")}, digest=digest(said)))
    assert not is_valid(answer_of())
    facts = {"prompt_token_ids": [float("inf")]}
    assert not is_valid(answer_of(output=said, digest=digest(said), prompt_facts=facts))


def test_the_line_of_a_control_is_known_by_its_pass_and_by_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    fields: dict[str, Any] = {"arm": "candidate", "start": 2, "error": "HTTP 500"}
    with SampleWriter(path, Redactor(())) as writer:
        writer.write(Sample(id="control:r0", pass_=NO_PASS, **fields))
        writer.write(Sample(id="control:r0", pass_=1, **fields))
        writer.write(Sample(id='", "pass": 0, "id": "control:', pass_=1, **fields))
    assert [is_control(line) for _, line in read_lines(path)] == [True, False, False]


WORDS = ("r0", "r1", "r2")
DIGESTS = [digest(output("A1", word, 1)) for word in WORDS]


def outputs(path: Path, noted: Path | None = None) -> Outputs:
    """Outputs in a file, or in `noted`, which is made of it later."""
    made = Outputs(path.parent)
    with SampleWriter(path, Redactor(())) as writer:
        for word, key in zip(WORDS, DIGESTS, strict=True):
            made.note(key, noted or path, writer.write(sample("A1", word, 1)))
    return made


def test_an_output_is_found_by_its_digest(tmp_path: Path) -> None:
    made = outputs(tmp_path / "samples.jsonl")
    assert [made[key] for key in DIGESTS] == [output("A1", word, 1) for word in WORDS]
    assert list(made) == DIGESTS
    assert DIGESTS[0] in made


@pytest.mark.parametrize("key", ["0" * 64, "no digest", "é"])
def test_an_unknown_digest_is_in_no_file(tmp_path: Path, key: str) -> None:
    made = outputs(tmp_path / "samples.jsonl")
    assert key not in made
    with pytest.raises(KeyError):
        made[key]


def test_the_first_place_of_an_output_stands(tmp_path: Path) -> None:
    made = outputs(tmp_path / "samples.jsonl")
    made.note(DIGESTS[0], tmp_path / "nowhere", SamplePosition(offset=0, length=1))
    assert made[DIGESTS[0]] == output("A1", "r0", 1)
    assert len(made) == 3


def test_a_packed_file_is_read_too(tmp_path: Path) -> None:
    plain, packed = tmp_path / "samples.jsonl", tmp_path / "samples.jsonl.gz"
    made = outputs(plain, packed)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert made[DIGESTS[2]] == output("A1", "r2", 1)
    packed.write_bytes(gzip.compress(plain.read_bytes())[:-20])
    assert made[DIGESTS[1]] == output("A1", "r1", 1), "it was unpacked as a whole, once"
    assert sorted(tmp_path.iterdir()) == [plain, packed], "into a file without a name"


def test_a_packed_file_that_is_cut_short_is_not_read(tmp_path: Path) -> None:
    plain, packed = tmp_path / "samples.jsonl", tmp_path / "samples.jsonl.gz"
    made = outputs(plain, packed)
    packed.write_bytes(gzip.compress(plain.read_bytes())[:-20])
    with pytest.raises(InfraError):
        made[DIGESTS[0]]


@pytest.mark.parametrize("change", ["gone", "cut", "swapped"])
def test_a_file_that_changed_is_told(tmp_path: Path, change: str) -> None:
    path = tmp_path / "samples.jsonl"
    made = outputs(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(
        {"gone": b"", "cut": lines[0] + lines[1][:-9], "swapped": lines[1] + lines[0]}[change]
    )
    with pytest.raises(InfraError, match=f"can no longer be read.*{DIGESTS[1][:12]}"):
        made[DIGESTS[1]]


def test_sixteen_thousand_outputs_take_at_most_200_bytes_each() -> None:
    keys = [digest(number) for number in range(16_000)]
    path = Path("samples.jsonl")
    tracemalloc.start()
    try:
        made = Outputs()
        for number, key in enumerate(keys):
            made.note(key, path, SamplePosition(offset=number * 10_000_000, length=10_000_000))
        each = tracemalloc.get_traced_memory()[0] / len(keys)
    finally:
        tracemalloc.stop()
    assert each < 200
