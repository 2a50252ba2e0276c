# SPDX-License-Identifier: Apache-2.0
"""Groups of modules that need each other."""

from ci_doctor.imports.locks import groups


def test_nodes_that_lead_to_each_other_are_one_group_after_what_they_lead_to() -> None:
    found = [sorted(group) for group in groups([[1], [2, 3], [0], [4], []])]
    assert found == [[4], [3], [0, 1, 2]]


def test_a_chain_longer_than_pythons_stack_is_followed() -> None:
    length = 20_000
    assert len(next(groups([[(node + 1) % length] for node in range(length)]))) == length
