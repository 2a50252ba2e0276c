# SPDX-License-Identifier: Apache-2.0
"""The facts of an investigation."""

import msgspec

from ci_doctor.imports.confirm.standing import Standing
from ci_doctor.imports.report.facts import facts
from tests.unit.imports.hazards_of import (
    a_hazard,
    an_investigation,
)


def test_facts_are_json_and_hold_every_hazard() -> None:
    known = facts(
        an_investigation(a_hazard(), a_hazard(pid=2), interpreters={"/usr/bin/python3": None})
    )

    decoded = msgspec.json.decode(msgspec.json.encode(known))
    assert [hazard["pid"] for hazard in decoded["hazards"]] == [1, 2]
    assert decoded["hazards"][0]["standing"] == "possible"
    assert decoded["interpreters"] == {"/usr/bin/python3": "unknown"}
    assert decoded["counts"]["possible"] == 1


def test_every_standing_is_counted() -> None:
    assert set(msgspec.to_builtins(facts(an_investigation()))["counts"]) >= {
        str(standing) for standing in Standing
    }
