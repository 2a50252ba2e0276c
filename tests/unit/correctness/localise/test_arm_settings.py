# SPDX-License-Identifier: Apache-2.0
"""In which settings two arms differ, and an arm that has some of them."""

import pytest

from ci_doctor.correctness.localise.arm_settings import labels, pair_of
from ci_doctor.correctness.settings import Arm, ArmPlan
from ci_doctor.errors import UsageError
from ci_doctor.services.spec import ServiceSpec


def arms(base: ServiceSpec, other: ServiceSpec) -> dict[Arm, ArmPlan]:
    return {
        Arm.BASELINE: ArmPlan(specs={"baseline": base}, names=("baseline",)),
        Arm.CANDIDATE: ArmPlan(specs={"candidate": other}, names=("candidate",)),
    }


def test_each_variable_and_each_flag_with_its_values_is_one_setting() -> None:
    base = ServiceSpec(command="serve m --port {port} --seed -1 --old", env={"A": "1", "B": "1"})
    other = ServiceSpec(
        command="serve m --port {port} --seed -2 --new 1 2 --json '{\"a\": 1}'",
        env={"A": "2", "C": "1"},
    )
    pair = pair_of(arms(base, other), {})

    names = labels(pair, range(len(pair.settings)))
    assert names == (
        "A=2", "B unset", "C=1", "--seed -2", "--new 1 2", "--json '{\"a\": 1}'", "without --old",
    )  # fmt: skip
    spec = pair.arm(1 << 1 | 1 << 4 | 1 << 6).specs["baseline"]
    assert spec.env == {"A": "1"}
    assert spec.words() == ["serve", "m", "--port", "{port}", "--seed", "-1", "--new", "1", "2"]


def test_no_setting_is_the_baseline_and_all_are_the_candidate() -> None:
    base = ServiceSpec(command="serve m --port {port} --a 1", env={"A": "1"}, ready="/health")
    other = ServiceSpec(command="other m --port {port} --b 2", cwd="below", ready="/ready")
    pair = pair_of(arms(base, other), {})
    everything = (1 << len(pair.settings)) - 1

    assert pair.arm(0).specs["baseline"].words() == base.words()
    whole = pair.arm(everything).specs["baseline"]
    assert (whole.words(), whole.env, whole.cwd, whole.ready) == (
        other.words(), {}, "below", "/ready",
    )  # fmt: skip


def test_pins_are_settings_by_the_name_of_the_package() -> None:
    same = ServiceSpec(command="serve")
    pins = {
        Arm.BASELINE: "torch==2.12\nNumPy==2.0\nold==1\n--index-url x\n",
        Arm.CANDIDATE: "# made by hand\ntorch==2.13\nnumpy==2.0\nnew==1 # why\n--index-url x\n",
    }
    pair = pair_of(arms(same, same), pins)

    assert labels(pair, pair.pinned) == ("new==1", "old is not pinned", "torch==2.13")
    at = next(number for number, each in enumerate(pair.settings) if each.name == "torch")
    pinned = pair.pins_of(1 << at)
    assert [each in pinned for each in ("torch==2.13", "old==1", "new==1")] == [True, True, False]


@pytest.mark.parametrize(
    ("pins", "sentence"),
    [
        ({}, "do not differ"),
        ({Arm.CANDIDATE: "torch ==== 1"}, "line 1 of the candidate's pins is no requirement"),
    ],
)
def test_what_cannot_be_searched_is_refused(pins: dict[Arm, str], sentence: str) -> None:
    same = ServiceSpec(command="serve")
    with pytest.raises(UsageError, match=sentence):
        pair_of(arms(same, same), pins)
