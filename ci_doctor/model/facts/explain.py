# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor explain`."""

from ci_doctor.model.facts import Facts


class ExplainFacts(Facts, frozen=True, kw_only=True):
    """Two sentences on the word.

    The rest is of a log rule, and of a text that one recognises: the id of the rule, the class of
    failures, whether another run can help (`yes`, `no`, `ask`), and a command of ours to go on with.
    """

    meaning: str
    remedy: str
    rule: str | None = None
    failure_class: str | None = None
    retry: str | None = None
    next_command: str | None = None
