# SPDX-License-Identifier: Apache-2.0
import shutil
import subprocess
from pathlib import Path

import pytest

from ci_doctor.drift.system_packages import SystemPackages, databases, read_system_packages


def listed(
    tmp_path: Path, *programs: str, timeout_s: float = 5.0, **scripts: str
) -> SystemPackages:
    """The packages with these programs on PATH alone, each a script of sh."""
    for name, text in scripts.items():
        program = tmp_path / name.replace("_", "-")
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    for name in ("sh", "printf", "cat", "sleep", *programs):
        real = shutil.which(name)
        if real is not None:
            (tmp_path / name).symlink_to(real)
    return read_system_packages({"PATH": str(tmp_path)}, timeout_s)


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no Debian")
def test_the_packages_of_debian_are_those_that_its_own_program_calls_installed(
    tmp_path: Path,
) -> None:
    version = subprocess.run(
        ["dpkg-query", "-W", "-f=${Version}", "libc6"], capture_output=True, text=True, check=True
    ).stdout

    packages = listed(tmp_path, "dpkg-query")

    assert packages.unknown is None
    assert packages.versions["libc6"] == version


def test_dpkg_names_what_is_installed_and_not_what_was_removed(tmp_path: Path) -> None:
    lines = (
        r"installed\tbash\t5.2-1\tamd64\nconfig-files\tgone\t1\tall\n"
        r"installed\tlibc6\t2.36\tamd64\ninstalled\tlibc6\t2.35\ti386\n"
    )

    packages = listed(tmp_path, dpkg_query=f"printf '{lines}'")

    assert packages.versions == {"bash": "5.2-1", "libc6": "2.36", "libc6:i386": "2.35"}


def test_rpm_names_every_kernel_of_several(tmp_path: Path) -> None:
    lines = r"kernel\t6.1-1\nbash\t5.2-3.el9\nkernel\t6.2-1\nkernel\t6.1-1\n"

    packages = listed(tmp_path, rpm=f"printf '{lines}'")

    assert packages.versions == {"bash": "5.2-3.el9", "kernel": "6.1-1 and 6.2-1"}


def test_apk_names_what_is_installed_beside_its_warnings(tmp_path: Path) -> None:
    text = "WARNING: opening /var/cache/apk: No such-file\nmusl-1.2.5-r0\npy3-x-tools-1.3-r2"

    packages = listed(tmp_path, apk=f"cat <<'E'\n{text}\nE")

    assert packages.versions == {"musl": "1.2.5-r0", "py3-x-tools": "1.3-r2"}


def test_a_program_of_another_distribution_that_lists_nothing_is_passed_over(
    tmp_path: Path,
) -> None:
    packages = listed(tmp_path, dpkg_query="exit 1", rpm=r"printf 'bash\t5.2-1\n'")

    assert packages.versions == {"bash": "5.2-1"}


def test_a_program_that_fails_in_the_middle_has_listed_nothing(tmp_path: Path) -> None:
    packages = listed(tmp_path, rpm=r"printf 'bash\t5.2-1\n'; echo 'error: damaged'; exit 1")

    assert packages == SystemPackages(unknown="rpm failed: error: damaged")


def test_a_program_that_hangs_is_unknown(tmp_path: Path) -> None:
    packages = listed(tmp_path, dpkg_query="sleep 600", timeout_s=0.2)

    assert packages == SystemPackages(unknown="dpkg-query has not answered within 0.2 s")


def test_a_program_that_lists_nothing_is_unknown(tmp_path: Path) -> None:
    assert listed(tmp_path, apk=":") == SystemPackages(unknown="apk lists no package")


def test_a_program_that_cannot_be_started_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "apk").write_text("#!/no/such/interpreter\n")
    (tmp_path / "apk").chmod(0o755)

    assert "cannot be started" in (listed(tmp_path).unknown or "")


def test_without_a_program_it_is_unknown(tmp_path: Path) -> None:
    packages = listed(tmp_path)

    assert packages == SystemPackages(unknown="there is no program of dpkg, rpm or apk")


def test_an_installation_changes_one_of_the_databases(tmp_path: Path) -> None:
    assert tmp_path / "var/lib/dpkg/status" in databases(tmp_path)
    assert tmp_path / "lib/apk/db/installed" in databases(tmp_path)
