# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor explain`."""

from ci_doctor.model.facts import Facts


class ExplainFacts(Facts, frozen=True, kw_only=True):
    """Two sentences on the word."""

    meaning: str
    remedy: str
