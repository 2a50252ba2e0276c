# SPDX-License-Identifier: Apache-2.0

from ci_doctor.errors import (
    Terminated,
)


def test_a_termination_passes_through_what_catches_errors() -> None:
    assert not issubclass(Terminated, Exception)
    assert Terminated.code == 143
