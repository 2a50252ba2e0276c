# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.diagnosis.outside import retry_policy
from ci_doctor.model.cause import FailureClass, about_retry, likelihood


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
    ("class_", "is_proven", "words"),
    [
        (FailureClass.REGISTRY, True, "can help"),
        (FailureClass.REGISTRY, False, "may pass, but the log does not prove"),
        (FailureClass.IMPORT_RACE, False, "may pass, but the log does not prove"),
        (FailureClass.LINT, False, "useless"),
        (FailureClass.CUDA_ERROR, False, "Ask a person"),
        (None, False, "Ask a person"),
    ],
)
def test_whether_another_run_helps(
    class_: FailureClass | None, is_proven: bool, words: str
) -> None:
    assert words in about_retry(retry_policy(class_, "it broke"), is_proven=is_proven)
