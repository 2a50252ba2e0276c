# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import pytest

from ci_doctor.correctness.samples import Sample, SampleWriter
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.system.redaction import Redactor

SECRET = "0.123456789"  # looks like a number


def written(path: Path, *samples: Sample, secrets: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    with SampleWriter(path, Redactor(secrets)) as writer:
        for sample in samples:
            writer.write(sample)
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def sample(**fields: Any) -> Sample:
    return Sample(arm="baseline", start=1, pass_=2, id="r0", **fields)


def test_a_sample_is_one_line_of_json(tmp_path: Path) -> None:
    (line,) = written(
        tmp_path / "new" / "samples.jsonl", sample(status=200, output={"a": "b\n\ud800\u2028"}, digest="d")
    )
    assert (line["pass"], line["id"], line["output"]) == (2, "r0", {"a": "b\n\ud800\u2028"})


def test_samples_of_an_earlier_run_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    written(path, sample(), sample())
    assert len(written(path, sample())) == 1


def test_a_line_is_there_as_soon_as_it_is_written(tmp_path: Path) -> None:
    with SampleWriter(tmp_path / "samples.jsonl", Redactor(())) as writer:
        writer.write(sample())
        assert (tmp_path / "samples.jsonl").read_bytes().endswith(b"}\n")


def test_secrets_are_taken_out_of_texts_and_numbers_stay_numbers(tmp_path: Path) -> None:
    said = {"text": f"the key is {SECRET}", "logprob": float(SECRET)}
    (line,) = written(tmp_path / "samples.jsonl", sample(output=said), secrets=(SECRET,))
    assert line["output"] == {"text": "the key is [redacted]", "logprob": float(SECRET)}


def test_a_token_is_evidence_and_no_secret(tmp_path: Path) -> None:
    said = {"content": [{"token": " Paris", "logprob": -0.1}], "text": "password: 'abc'"}
    (line,) = written(tmp_path / "samples.jsonl", sample(output=said), secrets=("something-else",))
    assert line["output"] == said


def test_a_place_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        written(tmp_path / "samples.jsonl")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_nobodys_fault() -> None:
    with pytest.raises(InfraError, match="No space left"):
        written(Path("/dev/full"), sample())
