# SPDX-License-Identifier: Apache-2.0
"""What a restore has left for later commands."""

from pathlib import Path

import pytest

from ci_doctor.caches.receipt import (
    forget_receipt,
    keep_receipt,
    machine_directory,
    read_receipt,
    receipts_of,
)
from ci_doctor.store.objects import StoreError
from tests.support.saved_manifests import receipt


def test_a_receipt_is_read_as_it_was_kept(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/caches/triton"))

    assert read_receipt(tmp_path, "triton", Path("/caches/triton")) == receipt("/caches/triton")


def test_receipts_of_a_family_come_with_the_newest_first(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/one", installed_ns=1))
    keep_receipt(tmp_path, receipt("/two", installed_ns=2))

    assert [each.root for each in receipts_of(tmp_path, "triton")] == ["/two", "/one"]


def test_a_receipt_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/one"))
    for path in (tmp_path / "receipts").iterdir():
        path.write_bytes(path.read_bytes()[:-9])

    assert read_receipt(tmp_path, "triton", Path("/one")) is None


def test_a_forgotten_receipt_is_gone(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/one"))

    forget_receipt(tmp_path, "triton", Path("/one"))

    assert receipts_of(tmp_path, "triton") == []


def test_it_is_made_for_this_user_alone(tmp_path: Path) -> None:
    path = machine_directory({"XDG_RUNTIME_DIR": str(tmp_path)})

    assert path == tmp_path / "ci-doctor"
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_link_and_one_that_others_can_write_to_are_refused(tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to(tmp_path)
    tmp_path.chmod(0o777)

    for place, fault in (
        (tmp_path / "state", "is no directory"),
        (tmp_path, "open to other users"),
    ):
        with pytest.raises(StoreError, match=fault):
            machine_directory({"CI_DOCTOR_STATE_DIR": str(place)})
