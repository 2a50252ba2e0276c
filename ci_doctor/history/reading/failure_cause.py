# SPDX-License-Identifier: Apache-2.0
"""Pure. The cause of a failed attempt, by the message that its file holds."""

from ci_doctor.model.cause import Cause, fingerprint
from ci_doctor.system.secrets.private_keys import first_words

_LONGEST = 200
_RULE = "test/failure"


def cause_of_message(message: str, kind: str = "") -> Cause | None:
    """The cause that the first line of `message` names; None without a message.

    kind: the type of the failure, as JUnit has it. Equal messages up to times, numbers, addresses
    and directories have one fingerprint.
    """
    stripped = message.strip()
    if not stripped:
        return None
    first = first_words(stripped.splitlines()[0], _LONGEST)
    return Cause(fingerprint=fingerprint(_RULE, {}, first, kind), title=first)
