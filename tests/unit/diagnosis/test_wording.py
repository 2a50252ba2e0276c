# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.diagnosis.exit_status import RetryEvidence
from ci_doctor.diagnosis.failure_class import FailureClass
from ci_doctor.diagnosis.wording import about_retry, likelihood


@pytest.mark.parametrize(
    ("confidence", "words"),
    [
        (0.95, "very likely"),
        (0.9, "very likely"),
        (0.75, "likely"),
        (0.5, "more likely than not"),
        (0.31, "one possibility among others"),
    ],
)
def test_a_confidence_in_words(confidence: float, words: str) -> None:
    assert likelihood(confidence) == words


@pytest.mark.parametrize(
    ("class_", "outside", "words"),
    [
        (FailureClass.REGISTRY, False, "can help"),
        (FailureClass.IMPORT_RACE, False, "may pass, and cures nothing"),
        (FailureClass.LINT, False, "useless"),
        (FailureClass.CUDA_ERROR, False, "Ask a person"),
        (FailureClass.GPU_OUT_OF_MEMORY, True, "can help"),
        (None, False, "Ask a person"),
    ],
)
def test_whether_another_run_helps(class_: FailureClass | None, outside: bool, words: str) -> None:
    evidence = RetryEvidence(class_=class_, says_outside=outside, text="it broke", is_final=True)

    assert words in about_retry(evidence)
