# SPDX-License-Identifier: Apache-2.0

from ci_doctor.errors import CiDoctorError, Terminated


def test_an_error_of_no_kind_of_its_own_is_a_bug() -> None:
    assert CiDoctorError.code == 70


def test_a_termination_passes_through_what_catches_errors() -> None:
    assert not issubclass(Terminated, Exception)
    assert Terminated.code == 143
