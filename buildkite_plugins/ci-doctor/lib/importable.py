# SPDX-License-Identifier: Apache-2.0
"""Reads this interpreter's packages: importable.py REPOSITORY fails if ci_doctor cannot run from that checkout.

That its command line can be imported says little: many interpreters have click, and nothing else of ours.
"""

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path


def main(repository: str) -> None:
    """Raises ImportError if a package is missing; PackageNotFoundError is one."""
    sys.path.insert(0, repository)
    import ci_doctor.cli  # noqa: F401

    project = tomllib.loads(Path(repository, "pyproject.toml").read_text())["project"]
    for requirement in project["dependencies"]:
        name = re.split(r"[^\w.-]", requirement)[0]
        version(name)


if __name__ == "__main__":
    main(sys.argv[1])
