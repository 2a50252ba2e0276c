# SPDX-License-Identifier: Apache-2.0
"""Acts on this process: makes it the parent of orphans below it (child subreaper, prctl(2))."""

import os
import signal

from ci_doctor.errors import InfraError

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def become_subreaper() -> None:
    """From now on orphans below us become our children. Raises InfraError if the system refuses."""
    import ctypes

    # A parent may have left SIGCHLD ignored; then the kernel discards exit codes (waitpid(2)).
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise InfraError(
            f"this system does not let ci-doctor adopt orphaned processes: {reason}",
            hint="allow prctl(PR_SET_CHILD_SUBREAPER) in the container's seccomp profile",
        )
