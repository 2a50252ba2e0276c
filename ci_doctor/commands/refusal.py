# SPDX-License-Identifier: Apache-2.0
"""What `ci-doctor run` says of a command that the system does not run."""

import errno
import os

import click


def refused(name: str, number: int) -> int:
    """127 if there is no command `name` (`number` is the error of execve(2)), else 126: as a shell."""
    if number == errno.ENOENT:
        click.echo(f"error: {name}: command not found", err=True)
        return 127
    click.echo(f"error: {name}: {os.strerror(number)}", err=True)
    return 126
