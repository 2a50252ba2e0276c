# SPDX-License-Identifier: Apache-2.0
"""Which checks there are, which of them are chosen, and which make sense here."""

from pathlib import Path

import pytest

from ci_doctor.checks.all_checks import all_checks, chosen, missing_need, requested_by
from ci_doctor.checks.check import CheckResult, DoctorCheck, Need
from ci_doctor.checks.settings import DoctorSettings, OwnCheck
from ci_doctor.errors import UsageError
from tests.support.checks import check_context


def named(*names: str, need: Need = Need.NOTHING) -> list[DoctorCheck]:
    checks = []
    for name in names:
        check = DoctorCheck(
            id=name, title=name, run=lambda _: CheckResult(summary="fine"), need=need
        )
        checks.append(check)
    return checks


CHECKS = named("gpu/seen", "gpu/memory", "machine/disk", "own/disk")


def ids(checks: tuple[DoctorCheck, ...]) -> list[str]:
    return [check.id for check in checks]


@pytest.mark.parametrize(
    ("wanted", "skipped", "expected"),
    [
        ((), (), ["gpu/seen", "gpu/memory", "machine/disk", "own/disk"]),
        (("gpu",), (), ["gpu/seen", "gpu/memory"]),
        (("machine/disk",), (), ["machine/disk"]),
        (("*/disk",), (), ["machine/disk", "own/disk"]),
        ((), ("gpu",), ["machine/disk", "own/disk"]),
        (("gpu",), ("gpu/m*",), ["gpu/seen"]),
    ],
)
def test_a_name_is_an_id_an_area_or_a_pattern(
    wanted: tuple[str, ...], skipped: tuple[str, ...], expected: list[str]
) -> None:
    assert ids(chosen(CHECKS, wanted, skipped)) == expected


@pytest.mark.parametrize("where", ["wanted", "skipped"])
def test_a_mistyped_name_is_refused_with_the_nearest(where: str) -> None:
    names: dict[str, tuple[str, ...]] = {"wanted": (), "skipped": ()}
    names[where] = ("machine/disc",)

    with pytest.raises(UsageError) as raised:
        chosen(CHECKS, **names)

    assert raised.value.hint == "did you mean `machine/disk`?"


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("machin", "did you mean `machine`?"),
        ("gpu_prof", "did you mean `gpu_proof`?"),
        ("nothing-like-it", "`ci-doctor doctor --list` names all"),
        ("", "`ci-doctor doctor --list` names all"),
    ],
)
def test_a_hint_is_one_line_and_knows_the_areas(typed: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        chosen(CHECKS, (typed,), ())

    assert raised.value.hint == hint


@pytest.mark.parametrize(
    "name", ["imports", "imports/services", "gpu_proof/workspace", "gpu_proof/*"]
)
def test_a_configuration_may_skip_what_this_job_has_not_requested(name: str) -> None:
    assert ids(chosen(CHECKS, (), (name,))) == ids(tuple(CHECKS))


def test_every_check_has_an_id_of_its_own_and_a_title() -> None:
    settings = DoctorSettings(
        workload="vllm", entry_points=["true"], checks={"mine": OwnCheck(command="true")}
    )
    checks = all_checks(settings, ["gpu", "imports"])

    assert len(set(ids(checks))) == len(checks)
    assert all("/" in check.id and check.title for check in checks)


def test_what_takes_time_is_a_check_only_if_it_is_requested() -> None:
    usual = ids(all_checks(DoctorSettings()))
    with_imports = ids(all_checks(DoctorSettings(), ["imports"]))

    assert not [name for name in usual if name.startswith("imports/")]
    assert set(with_imports) - set(usual) == {"imports/services"}


def test_a_check_that_is_named_needs_no_option() -> None:
    assert requested_by(("machine/disk", "imports/services")) == ("imports",)
    assert requested_by(("gpu_proof", "gpu_proof/workspace")) == ("gpu",)
    assert requested_by(("gpu/driver",)) == ()
    assert requested_by(("machine",)) == ()


def test_without_what_it_needs_a_check_makes_no_sense(tmp_path: Path) -> None:
    context = check_context(tmp_path, environ={"PATH": ""}, root=tmp_path)
    reasons = {need: missing_need(named("a/b", need=need)[0], context) for need in Need}

    assert reasons.pop(Need.NOTHING) is None
    assert reasons == {need: need.value for need in Need if need is not Need.NOTHING}


def test_a_trace_of_a_gpu_makes_its_checks_answer(tmp_path: Path) -> None:
    (tmp_path / "dev" / "nvidia0").mkdir(parents=True)
    context = check_context(tmp_path, environ={"PATH": ""}, root=tmp_path)

    assert missing_need(named("gpu/seen", need=Need.GPU)[0], context) is None
