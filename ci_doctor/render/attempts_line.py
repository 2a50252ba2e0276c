# SPDX-License-Identifier: Apache-2.0
"""Pure. A job's earlier attempts -> one line of Markdown, each with a link to its job."""

import html
import re
from collections.abc import Sequence

from ci_doctor.model.about import About
from ci_doctor.model.earlier_attempt import EarlierAttempt
from ci_doctor.model.job_record import JobRecord
from ci_doctor.render.headline import job_headline
from ci_doctor.render.links import safe_address
from ci_doctor.render.markup import fitted
from ci_doctor.render.safe_text import cleaned

_SHOWN = 4  # attempts with a text of their own, the last ones
_CAUSE_BYTES = 300
_JOB = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


def attempts_line(
    record: JobRecord, earlier: Sequence[EarlierAttempt], *, has_passed: bool = False
) -> str:
    """What this attempt is, and what those before it were; empty for a first one."""
    number = record.about.attempt or 0
    if number == 0 and not earlier:
        return ""
    known = {each.attempt: cleaned(each) for each in earlier}
    first = max(0, number - _SHOWN)
    shown = range(first, number)
    line = f"Passed on attempt {number + 1}." if has_passed else f"Attempt {number + 1}."
    if first:
        line += f" {first} earlier ones are not shown."
    sentences = [_sentence(index, known.get(index), record.about) for index in shown]
    return " ".join([f"**{line}**", *sentences])


def _sentence(index: int, attempt: EarlierAttempt | None, about: About) -> str:
    if attempt is None or attempt.verdict is None:
        return f"Attempt {index + 1}: nothing is known of it."
    phrases = [fitted(job_headline(attempt.verdict).name, _CAUSE_BYTES)]
    if attempt.cause:
        phrases.append(fitted(attempt.cause, _CAUSE_BYTES))
    if attempt.exit_status:
        phrases.append(f"exit status {attempt.exit_status}")
    address = job_address(about, attempt.job)
    if address is not None:
        phrases.append(f'<a href="{address}">log</a>')
    return f"Attempt {index + 1}: {', '.join(phrases)}."


def job_address(about: About, job: str | None) -> str | None:
    """The address of a job on its build's page, as an attribute's value; None if it is not safe."""
    if job is None or _JOB.fullmatch(job) is None:
        return None
    build = safe_address(about.build_url)
    # The page that shows the annotation is the build's: there the id alone is enough.
    return html.escape(f"{build or ''}#{job}")
