# SPDX-License-Identifier: Apache-2.0
"""What of a restored cache the starts of an experiment get."""

from pathlib import Path

import pytest

from ci_doctor.caches.trusted_store import keep_receipt
from ci_doctor.commands.correctness_experiment import restored_trees
from ci_doctor.correctness.settings import Caches
from tests.support.saved_manifests import receipt


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("CI_DOCTOR_STATE_DIR", str(path))
    return path


def restore(state: Path, family: str, root: Path) -> None:
    root.mkdir()
    keep_receipt(state, receipt(root, family=family))


def test_restored_caches_are_copied_below_their_variables(state: Path, tmp_path: Path) -> None:
    restore(state, "triton", tmp_path / "triton")

    (tree,), findings = restored_trees(Caches.RESTORED)

    assert (tree.variable, tree.tree) == ("TRITON_CACHE_DIR", tmp_path / "triton")
    assert tree.rewrite("/start") is not None
    assert findings == ()


def test_a_cache_whose_keys_hold_its_directory_is_not_copied(state: Path, tmp_path: Path) -> None:
    restore(state, "flashinfer", tmp_path / "flashinfer")

    trees, (finding,) = restored_trees(Caches.RESTORED)

    assert trees == ()
    assert "flashinfer" in finding.summary


def test_fresh_starts_ignore_a_restored_cache_and_say_so(state: Path, tmp_path: Path) -> None:
    restore(state, "triton", tmp_path / "triton")

    trees, (finding,) = restored_trees(Caches.FRESH)

    assert trees == ()
    assert "ignores the restored caches of triton" in finding.summary


@pytest.mark.usefixtures("state")
def test_where_nothing_was_restored_only_starts_that_want_it_have_something_to_say() -> None:
    trees, (finding,) = restored_trees(Caches.RESTORED)

    assert restored_trees(Caches.FRESH) == restored_trees(Caches.AS_IS) == ((), ())
    assert trees == ()
    assert "nothing was restored" in finding.summary
