# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor run` says of a command that the system does not run."""

import errno
import os

from ci_doctor.session.printing import say


def refused(name: str, number: int) -> int:
    """127 if there is no command `name` (`number` is the error of execve(2)), else 126: as a shell."""
    if number == errno.ENOENT:
        say(f"error: {name}: command not found\n")
        return 127
    say(f"error: {name}: {os.strerror(number)}\n")
    return 126
