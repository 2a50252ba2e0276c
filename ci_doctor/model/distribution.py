# SPDX-License-Identifier: Apache-2.0
"""Pure. The name under which this tool is installed.

The command, the import package and the plugin are called ci-doctor. On the package index that name
belongs to another project, so nothing here may lead to it.
"""

DISTRIBUTION = "ci-doctor-toolkit"


def install_extra(extra: str) -> str:
    """The command that adds the packages of one of our extras to this installation."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
