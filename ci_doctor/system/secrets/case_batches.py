# SPDX-License-Identifier: Apache-2.0
"""Pure. Which cases of a large suite may hold a secret: most hold none, and need no closer look."""

from collections.abc import Iterable, Iterator, Sequence

from ci_doctor.model.outcome import Case
from ci_doctor.system.secrets.patterns import may_name_secret
from ci_doctor.system.secrets.tokens import may_hold_token
from ci_doctor.system.secrets.written_forms import to_bytes

_BATCH = 100


def batches_of_cases(cases: Sequence[Case]) -> Iterator[Sequence[Case]]:
    """`cases` in their order, a hundred at a time."""
    for start in range(0, len(cases), _BATCH):
        yield cases[start : start + _BATCH]


def may_hold_secret(cases: Sequence[Case], forms: Iterable[bytes]) -> bool:
    """Whether something in `cases` could have to go; never false if it has to.

    `forms` are the known secrets as they may be written. A line of the joined text is a text of a
    case: if no line holds the beginning of a secret, no case does.
    """
    if any(case.attempts for case in cases):
        return True
    text = "\n".join(f"{case.group}\n{case.name}\n{case.message}\n{case.detail}" for case in cases)
    if "\x1b" in text or "://" in text or may_name_secret(text):
        return True
    content = to_bytes(text)
    return may_hold_token(content) or any(form in content for form in forms)
