import os
import subprocess
import sys
from pathlib import Path

import pytest
from ci_doctor.checks.python.permissions import CHECK
from ci_doctor.checks.python.rules import SITE_NOT_EXECUTABLE

from ci_doctor.checks.check import CheckStatus
from tests.unit.checks.python.conftest import Examine


def test_readable_packages_are_ok(python: Path, examine: Examine) -> None:
    assert examine(CHECK, python).status is CheckStatus.OK


# From within the directory: other directories above it may be private, too.
_AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from ci_doctor.checks.python.permissions import _unreadable
from ci_doctor.checks.python.site_directory import SiteDirectory, SiteKind
os.chdir(sys.argv[1])
names = tuple(sorted(os.listdir()))
directory = SiteDirectory(path=Path("."), kind=SiteKind.OWN, names=names)
os.setuid(65534)
for problem in _unreadable(directory):
    print(problem.finding.rule, problem.finding.summary)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_another_user_may_not_read_is_an_error(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    package = site / "engine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (site / "open.py").write_text("")
    package.chmod(0o700)
    site.chmod(0o755)

    run = subprocess.run(
        [sys.executable, "-c", _AS_ANOTHER_USER, str(site)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout == "doctor/site-unreadable 1 entry of . cannot be read: engine\n"


def test_a_site_directory_from_which_nothing_is_loaded_is_an_error(
    python: Path, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To mount such a file system needs root.
    flags = os.statvfs_result((4096, 4096, 0, 0, 0, 0, 0, 0, os.ST_NOEXEC, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: flags)

    result = examine(CHECK, python)

    assert [each.finding.rule for each in result.problems] == [SITE_NOT_EXECUTABLE.id]
    assert result.status is CheckStatus.ERROR
