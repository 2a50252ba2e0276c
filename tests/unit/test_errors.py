# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.errors import (
    CiDoctorError,
    ConfigError,
    InfraError,
    PreparationError,
    Terminated,
    UsageError,
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (UsageError, 2),
        (ConfigError, 2),
        (PreparationError, 1),
        (InfraError, 75),
        (CiDoctorError, 70),
    ],
)
def test_an_error_knows_its_code_and_what_to_do(kind: type[CiDoctorError], code: int) -> None:
    error = kind("what", hint="do")
    assert (error.code, str(error), error.message, error.hint, error.findings) == (
        code,
        "what",
        "what",
        "do",
        (),
    )


def test_a_termination_passes_through_what_catches_errors() -> None:
    assert not issubclass(Terminated, Exception)
    assert Terminated.code == 143
