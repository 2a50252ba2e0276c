# SPDX-License-Identifier: Apache-2.0
from packaging.version import Version

from ci_doctor.version import tool_version


def test_it_is_a_version() -> None:
    assert str(Version(tool_version()))
