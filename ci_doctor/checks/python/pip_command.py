# SPDX-License-Identifier: Apache-2.0
"""Pure. The command that installs into one environment, as a remedy to paste."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ci_doctor.model.finding import ShellCommand

if TYPE_CHECKING:  # it reads files, and this module is pure
    from ci_doctor.checks.python.installed_environment import InstalledEnvironment


def pip_line(environment: "InstalledEnvironment", verb: str, words: Sequence[str]) -> str:
    """`verb` is such as `install`, `words` come after it; an environment without pip is one of uv."""
    python = shlex.quote(str(environment.python))
    rest = shlex.join(words)
    if any(each.name == "pip" for each in environment.distributions):
        # Its question would take the next line that is pasted for an answer. uv asks nothing.
        option = " -y" if verb == "uninstall" else ""
        return f"{python} -m pip {verb}{option} {rest}"
    return f"uv pip {verb} --python {python} {rest}"


def reinstallation(environment: "InstalledEnvironment", name: str, version: str) -> ShellCommand:
    """The command that installs one distribution again, and nothing else."""
    wanted = f"{name}=={version}" if version else name
    return ShellCommand(
        pip_line(environment, "install", ["--force-reinstall", "--no-deps", wanted])
    )
