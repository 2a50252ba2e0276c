"""Restored trees against their receipts."""

import os
from pathlib import Path

from ci_doctor.caches.families import FAMILIES
from ci_doctor.caches.receipt import keep_receipt
from ci_doctor.caches.targets import CacheTarget
from ci_doctor.caches.trusted_store import verify_installed
from ci_doctor.model.facts.cache import VerifiedCache
from tests.support.saved_manifests import receipt


def verified(folder: Path) -> VerifiedCache:
    """What is said of a receipt of one file `a/b` in `folder`."""
    state = folder / "state"
    state.mkdir()
    keep_receipt(state, receipt(folder))
    target = CacheTarget(family=FAMILIES["triton"], directory=folder)
    (cache,) = verify_installed((target,), state)
    return cache


def test_a_file_that_is_gone_is_missing(tmp_path: Path) -> None:
    assert verified(tmp_path).missing == ("a/b",)


def test_a_file_with_other_bytes_is_changed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("other")

    assert verified(tmp_path).changed == ("a/b",)


def test_a_pipe_in_place_of_a_file_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "b")

    assert verified(tmp_path).changed == ("a/b",)


def test_a_link_in_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").symlink_to("/dev/zero")

    assert verified(tmp_path).changed == ("a/b",)
