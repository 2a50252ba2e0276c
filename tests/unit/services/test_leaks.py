# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.model.service import LeftKind
from ci_doctor.services.leaks.ledger import Witnesses
from ci_doctor.services.leaks.places import IpcObject


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("torch_4242_1", "api"),
        ("x-4242.sock", "api"),
        ("x-42424.sock", None),
        ("x-24242", None),
        ("x-42", None),
        ("plain", None),
    ],
)
def test_a_whole_pid_in_a_name_tells_whose_it_is(name: str, owner: str | None) -> None:
    witnesses = Witnesses()
    witnesses.belongs(4242, "api")
    witnesses.belongs(42, "api")
    assert next(iter(witnesses.of_path(f"/tmp/4242/{name}")), None) == owner


def test_who_was_seen_with_it_counts_more_than_a_name() -> None:
    witnesses = Witnesses()
    witnesses.belongs(4242, "api")
    witnesses.saw("/tmp/x-4242", "kv", "held by kv (pid 1)")
    assert witnesses.of_path("/tmp/x-4242") == {"kv": "held by kv (pid 1)"}


def test_an_object_belongs_to_the_service_of_a_process_that_used_it() -> None:
    witnesses = Witnesses()
    witnesses.belongs(4242, "api")
    found = IpcObject(kind=LeftKind.SYSV_QUEUE, id=7, uid=0, pids=(9, 4242), size=None)
    assert list(witnesses.of_object((9, 4242), found)) == ["api"]
    assert witnesses.of_object((9,), found) == {}
