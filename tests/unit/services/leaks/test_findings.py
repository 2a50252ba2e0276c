# SPDX-License-Identifier: Apache-2.0
from typing import Any

from ci_doctor.model.finding import Severity
from ci_doctor.model.service import LeftBehind, LeftKind, LeftThing
from ci_doctor.services.leaks.findings import leak_findings, leak_table
from ci_doctor.services.leaks.left import removal


def thing(name: str, *services: str, **fields: Any) -> LeftThing:
    kind = LeftKind.SHARED_MEMORY
    fields = {"why": "held by it", "remedy": removal(kind, name), **fields}
    return LeftThing(kind=kind, name=name, services=services, **fields)


def test_there_is_one_finding_for_each_service_with_the_commands_that_remove() -> None:
    left = LeftBehind(things=(thing("/dev/shm/a b", "api"), thing("/dev/shm/c", "kv")))
    first, second = leak_findings(left)
    assert first.summary == "api left behind shared memory /dev/shm/a b"
    assert (first.severity, first.remedy) == (Severity.WARNING, "rm '/dev/shm/a b'")
    assert second.remedy == "rm /dev/shm/c"


def test_one_strict_service_makes_its_finding_an_error() -> None:
    left = LeftBehind(things=(thing("a", "api"), thing("b", "api", strict=True)))
    (finding,) = leak_findings(left)
    assert finding.severity is Severity.ERROR


def test_what_a_strict_service_hides_is_an_error() -> None:
    (finding,) = leak_findings(LeftBehind(unseen=("python (pid 7)",)))
    assert (finding.rule, finding.severity) == ("services/leaks-unseen", Severity.ERROR)


def test_what_nobody_is_known_to_have_made_is_no_finding_and_no_table() -> None:
    left = LeftBehind(unknown={"/tmp": 3})
    assert list(leak_findings(left)) == []
    assert leak_table(left) == ()


def test_the_table_has_a_row_for_each_thing_and_counts_the_rest() -> None:
    left = LeftBehind(things=(thing("a", "api", "kv", size=4096),), unknown={"/tmp": 3})
    (table,) = leak_table(left)
    assert [row.label for row in table.rows] == ["api and kv", "owner unknown"]
    assert [cell.value for cell in table.rows[1].cells] == ["new meanwhile", "3 in /tmp", None]


def test_system_v_objects_are_removed_by_id() -> None:
    assert removal(LeftKind.SYSV_SHARED_MEMORY, "5") == "ipcrm -m 5"
    assert removal(LeftKind.SYSV_SEMAPHORES, "5") == "ipcrm -s 5"
    assert removal(LeftKind.SYSV_QUEUE, "5") == "ipcrm -q 5"
    assert removal(LeftKind.TEMPORARY_DIRECTORY, "/tmp/x") == "rm -r /tmp/x"
