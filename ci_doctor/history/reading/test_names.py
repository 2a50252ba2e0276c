# SPDX-License-Identifier: Apache-2.0
"""Pure. One identity for a test, whichever tool names it: that of pytest's JUnit files."""

_SEPARATOR = "::"


def junit_identity(node_id: str) -> tuple[str, str]:
    """Suite and name of a pytest node id: `tests/test_a.py::TestX::test_b[1]`.

    They are `tests.test_a.TestX` and `test_b[1]`, as in the classname and name that pytest writes
    into a JUnit file. An id without `::` has no suite.
    """
    # A parameter may hold `::` and `/`, and ends the id.
    plain, bracket, parameters = node_id.partition("[")
    *parents, name = plain.split(_SEPARATOR)
    if not parents:
        return "", node_id
    return suite_of(_SEPARATOR.join(parents)), f"{name}{bracket}{parameters}"


def suite_of(scope: str) -> str:
    """The suite of `tests/test_a.py::TestX`; any other text as it stands."""
    file, _, classes = scope.partition(_SEPARATOR)
    if not file.endswith(".py"):
        return scope
    module = file.removesuffix(".py").replace("/", ".")
    if not classes:
        return module
    return ".".join([module, *classes.split(_SEPARATOR)])
