from pathlib import Path

from msgspec.structs import replace

from ci_doctor.history.evidence import JobEvidence, stored_text
from ci_doctor.history.ingest import NamedFile, read_file
from ci_doctor.history.placed_evidence import PlacedFile, evidence_of_file, surroundings
from ci_doctor.model.cause import Cause


def test_a_name_as_people_write_it_stays() -> None:
    assert stored_text("tests.test_a.TestX::test_b[é-1]") == "tests.test_a.TestX::test_b[é-1]"


def test_long_names_stay_different_and_fit_into_an_index() -> None:
    first, second = stored_text("é" * 5_000 + "1"), stored_text("é" * 5_000 + "2")

    assert first != second
    assert len(first) == len(second) == 300


def test_what_no_database_takes_is_replaced(tmp_path: Path) -> None:
    name = "a\0b\x1b[31m"
    file = tmp_path / "te\udcff.xml"
    file.write_text(
        '<testsuite><testcase classname="s" name="x"><failure message="m"/></testcase></testsuite>'
    )
    placed = read_file(NamedFile(path=file, is_named=True))
    assert isinstance(placed, PlacedFile)
    # A report of ours may hold what no XML can.
    (read,) = placed.parsed.attempts
    cause = Cause(fingerprint="f", title=name)
    parsed = replace(placed.parsed, attempts=(replace(read, name=name, cause=cause),))
    placed = replace(placed, parsed=parsed)
    evidence = evidence_of_file(placed, surroundings([], []), JobEvidence(branch=name))
    (attempt,) = evidence.attempts
    assert attempt.cause is not None
    texts = (attempt.name, attempt.cause.title, evidence.job.branch)
    assert texts == ("a\ufffdb",) * 3
    assert evidence.place.encode().endswith("te\ufffd.xml".encode())
