# SPDX-License-Identifier: Apache-2.0
"""Files that an earlier ci-doctor wrote, under the keys of that time, are read as those of today."""

import gzip
import json
import zlib
from pathlib import Path

from ci_doctor.correctness.archive.archive import Archive
from ci_doctor.correctness.collected.entries import read
from ci_doctor.correctness.collected.formats import SampleFormat
from ci_doctor.correctness.collected.pieces import alike, head, is_answer, token
from ci_doctor.correctness.evidence.begin_run import write_run
from ci_doctor.correctness.evidence.former_keys import SAMPLE, current
from ci_doctor.correctness.evidence.samples import read_line, read_lines
from ci_doctor.correctness.report.recorded import read_request
from ci_doctor.load.canonical import digest
from tests.unit.correctness.archived import IDENTITY, IDS, made
from tests.unit.correctness.recording import IDENTITY as IDENTITY_OF_RUN
from tests.unit.correctness.recording import Recording, sample, take_up

OUTPUT = {"choices": [{"index": 0, "text": "Paris"}]}
FORMER = {
    "arm": "baseline",
    "start": 1,
    "pass": 1,
    "id": "r0",
    "status": 200,
    "error": None,
    "output": OUTPUT,
    "digest": digest(OUTPUT),
    "said": "5" * 64,
    "asked": {"prompt_tokens": 3},
    "empty": False,
    "meta": {"id": "x"},
}
CURRENT = {SAMPLE.get(key, key): value for key, value in FORMER.items()}


def line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def begun(directory: Path) -> Recording:
    write_run(directory, IDENTITY_OF_RUN)
    return Recording(directory)


def in_former_keys(directory: Path) -> None:
    """Rewrite a run's files as ci-doctor 0.2 wrote them."""
    former = {"words_digest": "said", "prompt_facts": "asked", "not_released": "held"}
    former |= {"hashes": "marks", "started_at": "began"}
    for name in ("run.json", "samples.jsonl", "starts.jsonl"):
        path = directory / name
        text = path.read_text()
        for new, old in former.items():
            text = text.replace(f'"{new}":', f'"{old}":')
        text = text.replace("ci-doctor/run/2", "ci-doctor/run/1")
        path.write_text(text.replace("ci-doctor/start/2", "ci-doctor/start/1"))


def test_former_keys_become_those_of_today_and_todays_win() -> None:
    assert current({"said": 1, "id": "r0"}, SAMPLE) == {"words_digest": 1, "id": "r0"}
    assert current({"said": 1, "words_digest": 2}, SAMPLE) == {"words_digest": 2}
    assert current([1], SAMPLE) == [1]


def test_a_former_sample_is_the_same_sample() -> None:
    read_now = read_line(line(FORMER))
    assert (read_now.words_digest, read_now.prompt_facts) == ("5" * 64, {"prompt_tokens": 3})
    assert read_now == read_line(line(CURRENT))


def test_a_run_of_former_files_is_resumed(tmp_path: Path) -> None:
    run = begun(tmp_path)
    result = run.start("A1", not_released=("8.0 GB",))
    run.start("B1", finished=False)
    in_former_keys(tmp_path)
    assert b'"held"' in (tmp_path / "starts.jsonl").read_bytes()
    assert b'"asked"' in (tmp_path / "samples.jsonl").read_bytes()

    resumed = take_up(tmp_path)

    assert (resumed.results, resumed.again) == ((result,), ())
    assert b'"not_released"' in (tmp_path / "starts.jsonl").read_bytes(), "written anew"


def test_a_run_of_former_files_is_replayed(tmp_path: Path) -> None:
    run = begun(tmp_path)
    run.start("A1")
    run.start("B1", *(sample("B1", "r0", number, output=OUTPUT) for number in (1, 2)))
    now = read_request(tmp_path, "r0")
    in_former_keys(tmp_path)
    assert read_request(tmp_path, "r0").starts == now.starts


def test_collected_samples_of_former_files_are_the_same_entries() -> None:
    former, todays = (read(SampleFormat.OURS, line(value)) for value in (FORMER, CURRENT))
    without = read(SampleFormat.OURS, line({**CURRENT, "prompt_facts": {}}))
    assert former == todays != without


def test_the_fast_comparison_knows_the_lines_of_both_times() -> None:
    for value in (FORMER, CURRENT, {key: FORMER[key] for key in FORMER if key != "said"}):
        left, right = line(value), line({**value, "meta": {"id": "y"}})
        begin = head(SampleFormat.OURS, left)
        assert begin is not None
        assert is_answer(SampleFormat.OURS, left)
        assert token(SampleFormat.OURS, left, begin.at) is not None, value
        assert alike(SampleFormat.OURS, left, begin.at, right, begin.at), value


def test_a_former_archived_start_is_found(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive", days=30, limit=1 << 30)
    result, lines = made(tmp_path / "samples.jsonl")
    former = [each.replace(b'"prompt_facts":', b'"asked":') for each in lines]
    path = archive.keep(IDENTITY, result, former, build="build 42")
    header, samples = gzip.decompress(path.read_bytes()).split(b"\n", 1)
    old = {**json.loads(header), "said": dict.fromkeys(IDS, "6" * 64)}
    del old["levels"]
    member = gzip.compress(line(old))
    path.write_bytes(member + path.read_bytes()[len_of_first_member(path.read_bytes()) :])

    (start,) = archive.find(IDENTITY, IDS, 2).starts

    assert start.levels == {}, "it knew no levels of ours"
    assert start.answers == result.start.answers
    assert [read_line(each).id for each in samples.splitlines(keepends=True)][:3] == list(IDS)
    assert sum(1 for _ in read_lines(tmp_path / "samples.jsonl")) == 6


def len_of_first_member(content: bytes) -> int:
    unpack = zlib.decompressobj(31)
    unpack.decompress(content)
    return len(content) - len(unpack.unused_data)
