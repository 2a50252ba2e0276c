"""The directory in which the processes of one user agree."""

from pathlib import Path

import pytest

from ci_doctor.caches.receipt import machine_directory
from ci_doctor.store.objects import StoreError


def test_it_is_made_for_this_user_alone(tmp_path: Path) -> None:
    path = machine_directory({"XDG_RUNTIME_DIR": str(tmp_path)})

    assert path == tmp_path / "ci-doctor"
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to(tmp_path)

    with pytest.raises(StoreError, match="is no directory"):
        machine_directory({"CI_DOCTOR_STATE_DIR": str(tmp_path / "state")})


def test_one_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    with pytest.raises(StoreError, match="open to other users"):
        machine_directory({"CI_DOCTOR_STATE_DIR": str(tmp_path)})
