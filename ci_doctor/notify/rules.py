# SPDX-License-Identifier: Apache-2.0
"""The rules of findings about messages. Pure."""

from ci_doctor.model.finding import Severity
from ci_doctor.model.rule import Rule

NOT_SENT = Rule(
    id="notify/not-sent",
    severity=Severity.WARNING,
    meaning=(
        "A comment on the pull request, or a message to a webhook, could not be sent. This changes neither a "
        "verdict nor an exit code."
    ),
    remedy=(
        "Do what the reason asks for: another token, another address, a certificate in `SSL_CERT_FILE`. "
        "docs/notify.md lists the reasons."
    ),
)

RULES = (NOT_SENT,)
