# SPDX-License-Identifier: Apache-2.0
"""Reads this interpreter's packages: installed_version.py VERSION prints the version of ci-doctor that is installed.

Exit status 2 if none is, or another one than VERSION: installing it again gives the same. A commit, such as
g0123456789ab, may have any version.
"""

import sys
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import unquote

DISTRIBUTION = "ci-doctor-toolkit"


def main(wanted: str) -> int:
    """Print the installed version, and give back the exit status."""
    try:
        installed = version(DISTRIBUTION)
    except PackageNotFoundError:
        print(f"ci-doctor: {DISTRIBUTION} is not installed after all", file=sys.stderr)
        return 2
    if not wanted.startswith("g") and not is_same(installed, unquote(wanted)):
        print(f"ci-doctor: {DISTRIBUTION} {installed} is installed, not {wanted}", file=sys.stderr)
        return 2
    print(installed)
    return 0


def is_same(installed: str, wanted: str) -> bool:
    """Whether both are one version; `==1.0` takes 1.0.0 and 1.0+local, too."""
    if installed == wanted:
        return True
    try:
        from packaging.version import Version
    except ImportError:
        return False
    pinned = Version(wanted)
    found = Version(installed)
    return found == pinned or (pinned.local is None and Version(found.public) == pinned)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
