# SPDX-License-Identifier: Apache-2.0
"""Pure. Scopes of Test Engine -> suites, so that a test has one identity, whichever tool names it."""

from ci_doctor.model.junit_identity import SEPARATOR, dotted


def suite_of(scope: str) -> str:
    """The suite of `tests/test_a.py::TestX`; any other text as it stands."""
    file, *classes = scope.split(SEPARATOR)
    if not file.endswith(".py"):
        return scope
    return ".".join([dotted(file), *classes])
