# SPDX-License-Identifier: Apache-2.0
"""Pure. What later steps of a build read of it: `ci-doctor:verdict` and `ci-doctor:causes`."""

import msgspec

from ci_doctor.model.facts.build import BuildFacts
from ci_doctor.model.outcome import Report
from ci_doctor.model.verdict import NO_VERDICT

VERDICT_KEY = "ci-doctor:verdict"
CAUSES_KEY = "ci-doctor:causes"
# "not recommended" above 1 kB: https://buildkite.com/docs/pipelines/configure/build-meta-data
_MOST_BYTES = 1000
# In characters, of which JSON makes six bytes each at most: the first cause always fits.
_TITLE = 80
_FINGERPRINT = 64


def verdict_word(report: Report) -> str:
    """The verdict of the build, or `error` if nothing was judged."""
    return str(report.verdict or NO_VERDICT)


def causes_json(facts: BuildFacts) -> str:
    """`[{"fingerprint": …, "title": …, "jobs": 3}, …]`, the first ones, in at most 1,000 bytes.

    What does not fit is left out, from the end on. `[]` if no job failed.
    """
    rows: list[dict[str, object]] = []
    text = "[]"
    for cause in facts.causes:
        title = cause.title[:_TITLE]
        fingerprint = cause.fingerprint[:_FINGERPRINT]
        rows.append({"fingerprint": fingerprint, "title": title, "jobs": cause.jobs})
        longer = msgspec.json.encode(rows).decode()
        if len(longer.encode()) > _MOST_BYTES:
            break
        text = longer
    return text
