# SPDX-License-Identifier: Apache-2.0
"""Pure. The entry of `ci-doctor lint` for pre-commit.

It is a local hook that installs from the package index, so it needs no address of a repository.
https://pre-commit.com/#repository-local-hooks
"""

from typing import Final

from ci_doctor.scaffold.home import is_release, requirement

PRE_COMMIT: Final = ".pre-commit-config.yaml"
HOOK: Final = "ci-doctor-lint"


def pre_commit_entry(version: str) -> str:
    """The item of the list `repos`."""
    note = ""
    if not is_release(version):
        note = f"        # {version} is no release: name one that your index has, or a wheel.\n"
    return f"""\
  - repo: local
    hooks:
      - id: {HOOK}
        name: ci-doctor lint
        entry: ci-doctor lint
        language: python
{note}        additional_dependencies: ["{requirement(version, "lint")}"]
        types_or: [shell, yaml, python]
        require_serial: true
"""


def pre_commit_text(version: str) -> str:
    """The whole file."""
    return f"repos:\n{pre_commit_entry(version)}"
