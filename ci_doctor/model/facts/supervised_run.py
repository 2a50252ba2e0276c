# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor run --diagnose`."""

from ci_doctor.model.facts.diagnose import DiagnoseFacts
from ci_doctor.model.facts.setup_env import RunFacts


class SupervisedRunFacts(RunFacts, frozen=True, kw_only=True):
    """How the command ended, beside what it was prepared with.

    exit_code: of the command itself; None if `signal` ended it. log: its output, relative to the
    report directory; None if it was not kept. problems: sentences on output that could not be
    handed on or kept, or on a diagnosis that could not be made. kernel: sentences on what the kernel
    says of memory and faults, if a signal may have ended the command. diagnosis: what its log says,
    as of `ci-doctor diagnose`; None if nobody looked for a cause.
    """

    command: tuple[str, ...]
    exit_code: int | None
    signal: str | None
    log: str | None
    problems: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()
    diagnosis: DiagnoseFacts | None = None
