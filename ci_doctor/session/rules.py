# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about the report itself. Pure."""

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

NOT_DELIVERED = Rule(
    id="report/not-delivered",
    severity=Severity.WARNING,
    meaning=(
        "The report could not be written or printed whole. A failure keeps its verdict and its "
        "exit code. Anything else becomes `infra`, because nobody could check it later."
    ),
    remedy=(
        "Free some space, or name a directory that this user can write with `--report-dir`. Keep "
        "the reader of stdout alive until the command has ended."
    ),
)

RULES = (NOT_DELIVERED,)
