# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.model.outcome import junit_identity


@pytest.mark.parametrize(
    ("node_id", "classname", "name"),
    [
        ("tests/test_a.py::test_b", "tests.test_a", "test_b"),
        ("test_a.py::TestC::test_b[x::y/z]", "test_a.TestC", "test_b[x::y/z]"),
        # pytest writes the path of a doctest with dots, too.
        ("docs/guide.rst::guide.rst", "docs.guide.rst", "guide.rst"),
        ("test_a", "", "test_a"),
    ],
)
def test_a_node_id_has_the_names_that_pytest_writes_into_junit_files(
    node_id: str, classname: str, name: str
) -> None:
    assert junit_identity(node_id) == (classname, name)
