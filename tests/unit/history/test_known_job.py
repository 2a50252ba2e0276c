import pytest

from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import JobEvidence
from ci_doctor.history.own_report import known_job
from ci_doctor.model.about import About


def test_words_name_the_job() -> None:
    job = known_job(["commit=abc", "build=12", "job=7"], About())

    assert job == JobEvidence(commit="abc", build=12, key="7")


def test_a_job_of_buildkite_is_known_and_a_checkout_alone_is_not() -> None:
    assert known_job((), About(job="7", commit="abc")).commit == "abc"
    assert known_job((), About(job="7"), "cuda 12").label == "cuda 12"
    assert known_job((), About(commit="abc"), "cuda 12") == JobEvidence()


@pytest.mark.parametrize("word", ["commit", "commit=", "comit=abc", "build=x", f"build={10**20}"])
def test_other_words_are_errors(word: str) -> None:
    with pytest.raises(UsageError, match="--about"):
        known_job([word], About())
