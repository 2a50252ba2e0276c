# SPDX-License-Identifier: Apache-2.0
"""Reads the logs of a good run, and tells which lines of a failed one are new beside them."""

from collections.abc import Iterable, Sequence

import msgspec

from ci_doctor.diagnosis.candidate import Candidate
from ci_doctor.diagnosis.lines.normal_text import normal_text
from ci_doctor.diagnosis.reading.log_text import LogText
from ci_doctor.diagnosis.rule_set import RuleSet
from ci_doctor.diagnosis.scanning.scan import scan


def texts_of_good_run(logs: Iterable[LogText], rules: RuleSet) -> frozenset[str]:
    """The normal texts of all lines of `logs` that a rule matches."""
    texts: set[str] = set()
    for log in logs:
        for hit in scan(log, rules).hits:
            texts.add(normal_text(hit.clean.message))
    return frozenset(texts)


def compared(candidates: Sequence[Candidate], good: frozenset[str]) -> list[Candidate]:
    """`candidates`, each of which knows whether a line like it stands in the good run."""
    known = []
    for candidate in candidates:
        is_known = normal_text(candidate.clean.message) in good
        known.append(msgspec.structs.replace(candidate, in_good_run=is_known))
    return known
