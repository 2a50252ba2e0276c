"""Which directories a job's caches have."""

import os
import pwd
from pathlib import Path

import pytest

from ci_doctor.caches.targets import targets_of
from ci_doctor.errors import UsageError


def test_without_a_home_variable_a_cache_lies_in_the_users_home_as_libraries_have_it() -> None:
    (target,) = targets_of(["triton"], {}, {})

    assert target.directory == Path(pwd.getpwuid(os.getuid()).pw_dir, ".triton", "cache")


@pytest.mark.parametrize("below", ["", ".git"])
def test_a_directory_that_holds_the_checkout_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path / below)

    for directory in ("/", str(tmp_path)):
        with pytest.raises(UsageError, match="is no cache"):
            targets_of([f"mine={directory}"], {}, {"HOME": "/nowhere"})


def test_the_home_directory_is_no_cache_and_one_below_it_is(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}

    with pytest.raises(UsageError, match="is no cache"):
        targets_of([f"mine={tmp_path}"], {}, home)
    (target,) = targets_of([f"mine={tmp_path / 'cache'}"], {}, home)
    assert target.directory == tmp_path / "cache"


def test_a_directory_that_is_a_loop_of_links_is_one_that_cannot_be_restored_to(
    tmp_path: Path,
) -> None:
    (tmp_path / "loop").symlink_to("loop")

    (target,) = targets_of([f"mine={tmp_path / 'loop'}"], {}, {"HOME": "/nowhere"})

    assert target.directory == tmp_path / "loop"
