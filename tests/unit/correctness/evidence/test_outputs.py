# SPDX-License-Identifier: Apache-2.0
import gzip
import tracemalloc
from pathlib import Path

import pytest

from ci_doctor.correctness.evidence.outputs import Outputs
from ci_doctor.correctness.evidence.samples import SamplePosition, SampleWriter
from ci_doctor.errors import InfraError
from ci_doctor.load.canonical import digest
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.correctness.recording import output, sample

WORDS = ("r0", "r1", "r2")
DIGESTS = [digest(output("A1", word, 1)) for word in WORDS]


def outputs(path: Path) -> Outputs:
    made = Outputs()
    with SampleWriter(path, Redactor(())) as writer:
        for word, key in zip(WORDS, DIGESTS, strict=True):
            made.note(key, path, writer.write(sample("A1", word, 1)))
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
    made = Outputs(tmp_path)
    with SampleWriter(plain, Redactor(())) as writer:
        for word, key in zip(WORDS, DIGESTS, strict=True):
            made.note(key, packed, writer.write(sample("A1", word, 1)))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert made[DIGESTS[2]] == output("A1", "r2", 1)
    packed.write_bytes(gzip.compress(plain.read_bytes())[:-20])
    assert made[DIGESTS[1]] == output("A1", "r1", 1), "it was unpacked as a whole, once"
    assert sorted(tmp_path.iterdir()) == [plain, packed], "into a file without a name"


def test_a_packed_file_that_is_cut_short_is_not_read(tmp_path: Path) -> None:
    plain, packed = tmp_path / "samples.jsonl", tmp_path / "samples.jsonl.gz"
    made = Outputs(tmp_path)
    with SampleWriter(plain, Redactor(())) as writer:
        made.note(DIGESTS[0], packed, writer.write(sample("A1", "r0", 1)))
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
