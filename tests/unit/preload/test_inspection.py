# SPDX-License-Identifier: Apache-2.0
"""Which directory of a target is the right one."""

from pathlib import Path

import pytest

from ci_doctor.preload.inspection import choose_site_dir, former_targets
from ci_doctor.preload.target import Target


def test_purelib_is_first_even_where_another_site_directory_precedes_it() -> None:
    assert (
        choose_site_dir(["/v/lib", "/v/lib64"], ["/v/lib64", "/v/lib"], ["/v/lib64", "/v/lib"])
        == "/v/lib"
    )


def test_directory_must_be_on_the_path_too() -> None:
    assert (
        choose_site_dir(["/v/lib", "/v/lib64"], ["/v/lib", "/v/lib64"], ["/v/lib64"]) == "/v/lib64"
    )


def test_directory_on_the_path_that_is_no_site_directory_does_not_do() -> None:
    assert choose_site_dir(["/target", "/target"], ["/v/lib"], ["/target", "/v/lib"]) == "/v/lib"


def test_no_directory_fits() -> None:
    assert choose_site_dir(["/v/lib"], [], ["/v/lib"]) is None


def test_link_to_a_site_directory_counts_as_it(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib64").symlink_to(tmp_path / "lib")
    lib, lib64 = str(tmp_path / "lib"), str(tmp_path / "lib64")
    assert choose_site_dir([lib], [lib64], [lib64]) == lib


@pytest.mark.parametrize("is_venv", [True, False])
def test_site_directories_of_earlier_minor_versions_are_looked_for_in_virtual_environments_only(
    is_venv: bool, tmp_path: Path
) -> None:
    old, new = (tmp_path / "lib" / f"python3.{minor}" / "site-packages" for minor in (11, 12))
    for directory in (old, new):
        directory.mkdir(parents=True)
    (tmp_path / "lib64").symlink_to("lib")
    target = Target(
        python=tmp_path / "bin" / "python", version=(3, 12, 0), site_dir=new, externally_managed=False, writable=True,
        prefix=tmp_path if is_venv else None,
    )  # fmt: skip
    assert [former.site_dir for former in former_targets(target)] == ([old] if is_venv else [])
