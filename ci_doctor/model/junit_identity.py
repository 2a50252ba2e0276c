# SPDX-License-Identifier: Apache-2.0
"""A test as the JUnit files of pytest name it. Pure."""

SEPARATOR = "::"


def junit_identity(node_id: str) -> tuple[str, str]:
    """The class name and the name of a pytest node id: `tests/test_a.py::TestX::test_b[1]`.

    They are `tests.test_a.TestX` and `test_b[1]` (`mangle_test_address` of _pytest/junitxml.py). An
    id without `::` has no class name.
    """
    # A parameter may hold `::` and `/`, and ends the id.
    plain, bracket, parameters = node_id.partition("[")
    file, *names = plain.split(SEPARATOR)
    if not names:
        return "", node_id
    classes = names[:-1]
    return ".".join([dotted(file), *classes]), f"{names[-1]}{bracket}{parameters}"


def dotted(file: str) -> str:
    """`tests.test_a` for `tests/test_a.py`, `docs.guide.rst` for `docs/guide.rst`."""
    return file.removesuffix(".py").replace("/", ".")
