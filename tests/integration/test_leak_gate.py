# SPDX-License-Identifier: Apache-2.0
"""A gate that cannot look does not pass."""

import contextlib
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_doctor.model.facts.launch import LeftBehind, LeftKind
from ci_doctor.services import leak_ledger as ledger_module
from ci_doctor.services.leak_ledger import LeakLedger, LeakPolicy
from ci_doctor.system.processes.process_table import Kin, look_up

pytestmark = pytest.mark.integration


def ourselves() -> Kin:
    kin = look_up(os.getpid())
    assert kin is not None
    return kin


def strict(temporary: Path, mode: str = "strict") -> LeakLedger:
    policy = LeakPolicy(mode=mode, temporary=str(temporary), is_own=True)  # type: ignore[arg-type]
    return LeakLedger({"api": policy})


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_without_a_descriptor_to_look_with_nothing_counts_as_clean(tmp_path: Path) -> None:
    ledger = strict(tmp_path)
    (tmp_path / "left").touch()
    with no_descriptor_left():
        left = ledger.settled()
    assert any("Too many open files" in text for text in left.unseen)
    assert ledger.settled() is left


def test_what_lay_there_before_is_no_leak_if_it_could_not_be_seen_then(tmp_path: Path) -> None:
    (tmp_path / "older").touch()
    with no_descriptor_left():
        ledger = strict(tmp_path)
    left = ledger.settled()
    assert left.things == ()
    assert any(str(tmp_path) in text for text in left.unseen)


def test_only_a_strict_service_asks_for_sight(tmp_path: Path) -> None:
    ledger = strict(tmp_path, "report")
    with no_descriptor_left():
        assert ledger.settled() == LeftBehind()


def test_a_place_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert strict(tmp_path / "none").settled().unseen == ()


def test_a_place_that_is_no_place_to_read_is_unseen(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    seen = ledger_module.snapshot([str(loop)])
    assert list(seen.unseen) == [str(loop)]


def test_tables_that_proc_hides_are_unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {kind: (f"hidden-{row[0]}", *row[1:]) for kind, row in ledger_module._TABLES.items()}
    monkeypatch.setattr(ledger_module, "_TABLES", hidden)
    left = strict(tmp_path).settled()
    assert len(left.unseen) == len(hidden)


def test_a_failed_look_keeps_what_the_others_have_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = strict(tmp_path)
    (tmp_path / "left").touch()

    def unreadable() -> dict[int, int]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ledger_module, "listening_ports", unreadable)
    left = ledger.settled()
    assert [thing.name for thing in left.things] == [str(tmp_path / "left")]
    assert left.unseen == ("Permission denied",)


def test_a_folder_in_which_a_service_bound_a_socket_is_its_own(tmp_path: Path) -> None:
    policy = LeakPolicy(temporary=str(tmp_path))
    ledger = LeakLedger({"api": policy})
    folder = tmp_path / "made"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "s"))
        bound.listen()
        ledger.witness("api", lambda: [ourselves()])
    kinds = {thing.name: thing.kind for thing in ledger.settled().things}
    assert kinds.get(str(folder)) == LeftKind.TEMPORARY_DIRECTORY, kinds
