# SPDX-License-Identifier: Apache-2.0
"""What modules need, and which of them need each other."""

from ci_doctor.imports.locks import reach


def _reach(needs: dict[str, list[str]]) -> dict[str, set[str]]:
    names = list(needs)
    bits = {name: 1 << number for number, name in enumerate(names)}
    return {
        name: {each for each in names if all_ & bits[each]}
        for name, all_ in reach(bits, needs).items()
    }


def test_modules_that_need_each_other_reach_the_same_and_all_that_they_lead_to() -> None:
    found = _reach({"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": ["e"], "e": []})
    assert found["a"] == found["b"] == found["c"] == set("abcde")
    assert (found["d"], found["e"]) == ({"d", "e"}, {"e"})


def test_a_chain_longer_than_pythons_stack_is_followed() -> None:
    names = [f"m{number}" for number in range(5_000)]
    bits = {name: 1 << number for number, name in enumerate(names)}
    needs = {name: [names[index - 1]] for index, name in enumerate(names)}
    assert set(reach(bits, needs).values()) == {(1 << 5_000) - 1}
