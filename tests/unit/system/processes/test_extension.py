# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.system.processes.extension import extended


@pytest.mark.parametrize(
    ("limit_s", "waited_s", "extended_s"),
    [
        (4.0, 0.0, 4.0),
        (4.0, 0.01, 4.0),  # as on a quiet machine
        (4.0, 3.0, 7.0),
        (4.0, 1000.0, 34.0),
        (600.0, 1000.0, 1200.0),
    ],
)
def test_a_limit_grows_by_what_was_waited_for_a_cpu_up_to_a_bound(
    limit_s: float, waited_s: float, extended_s: float
) -> None:
    assert extended(limit_s, waited_s) == extended_s
