# SPDX-License-Identifier: Apache-2.0
"""Pure. One exit code for each kind of outcome, which pipelines rely on (docs/exit-codes.md)."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of `ci-doctor`.

    125 is never used (buildkite-agent rewrites it to -1); 126, 127 and 128+n belong to the shell.
    """

    PASS = 0
    FAILURE = 1  # `regression`, `failed`
    USAGE = 2  # also click's and argparse's own code
    FLAKY = 7  # pytest-rerunfailures' code under --fail-on-flaky
    BUG = 70  # sysexits EX_SOFTWARE
    INFRA = 75  # sysexits EX_TEMPFAIL
    NONDETERMINISTIC = 85
    UNDECIDED = 86  # `inconclusive` and `void`
    SIGINT = 130
    SIGTERM = 143
