# SPDX-License-Identifier: Apache-2.0
"""Pure. Why a regex of a rule cannot be used: its syntax, or its size."""

import re

# RE2 takes at most (length of the line) x (size of the program) steps. For the 2,000 characters of
# LONGEST_TEXT this size keeps them below 30 ms.
_MOST_INSTRUCTIONS = 1000


def regex_problem(regex: str, *, is_foreign: bool) -> str | None:
    """Why `regex` cannot be used, as a sentence; None if it can.

    It must be valid in both engines, so that a rule reads the same wherever it stands. The size of
    one that `is_foreign` is limited; a house rule's time is measured by a test instead.
    """
    import re2

    try:
        re.compile(regex)
    except (re.error, OverflowError, RecursionError) as error:
        return f"regex {regex!r}: {error}"
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0]
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        return f"regex {regex!r}: RE2 does not take it: {reason}"
    if is_foreign and compiled.programsize > _MOST_INSTRUCTIONS:
        return (
            f"regex {regex!r}: too large ({compiled.programsize} instructions, "
            f"at most {_MOST_INSTRUCTIONS}): a line could take more than 50 ms, "
            "use smaller repeats {m,n} or fewer alternatives"
        )
    return None
