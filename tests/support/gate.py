# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: `@pytest.mark.gate(3)` leaves three of a test's parametrized values in the gate; the others are nightly."""

import pytest


def in_the_gate(count: int, of: int) -> set[int]:
    """Which of so many values, by their place: `count` of them, the first one and others at even distances."""
    count = min(count, of)
    return {place * of // count for place in range(count)}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is left out, before `-m` selects."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("gate") is not None:
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for family in families.values():
        family.sort(key=_place)
        (mark,) = family[0].iter_markers("gate")
        chosen = in_the_gate(mark.args[0], len(family))
        for place, item in enumerate(family):
            if place not in chosen:
                item.add_marker(pytest.mark.nightly)


def _place(item: pytest.Item) -> tuple[tuple[int, ...], str]:
    """As in the file, not as pytest-randomly has shuffled them."""
    called = getattr(item, "callspec", None)
    return (() if called is None else tuple(called.indices.values())), item.nodeid
