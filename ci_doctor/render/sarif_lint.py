# SPDX-License-Identifier: Apache-2.0
"""Pure. What lint reports -> results and rules of SARIF 2.1.0."""

import hashlib
from collections import Counter
from typing import Any, Final

from ci_doctor.model.finding import Finding
from ci_doctor.model.report import Report
from ci_doctor.render.safe_text import one_line
from ci_doctor.render.sarif_places import LEVELS, location

_FINGERPRINT: Final = "ciDoctorLint/v1"
_DIGITS: Final = 16


def lint_rules(report: Report) -> list[dict[str, Any]]:
    """The rules that report something, by id, with their meanings."""
    meanings = report.facts.get("meanings")
    rules = []
    for rule in _ids(report):
        described: dict[str, Any] = {"id": one_line(rule)}
        meaning = meanings.get(rule) if isinstance(meanings, dict) else None
        if meaning:
            described["fullDescription"] = {"text": one_line(str(meaning))}
            described["help"] = {"text": f"{meaning}\n\nci-doctor explain {rule}"}
        rules.append(described)
    return rules


def lint_results(report: Report) -> list[dict[str, Any]]:
    """A result for each finding, at its place, with the places that belong to it."""
    indexes = {rule: index for index, rule in enumerate(_ids(report))}
    counts: Counter[str] = Counter()
    results = []
    for finding in report.findings:
        fingerprint = _fingerprint(finding)
        counts[fingerprint] += 1
        # Of two equal lines in a file each has a number of its own.
        number = f"{fingerprint}/{counts[fingerprint]}"
        results.append(_result(finding, indexes[finding.rule], number))
    return results


def _ids(report: Report) -> list[str]:
    return sorted({finding.rule for finding in report.findings})


def _result(finding: Finding, index: int, fingerprint: str) -> dict[str, Any]:
    text = one_line(finding.summary)
    if finding.remedy:
        text = f"{text}. Try: {finding.remedy}"
    result: dict[str, Any] = {
        "ruleId": one_line(finding.rule),
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "message": {"text": text},
        "partialFingerprints": {_FINGERPRINT: fingerprint},
    }
    places = [
        location(evidence.file, evidence.line, evidence.end_line)
        for evidence in finding.evidence
        if evidence.file is not None
    ]
    if places:
        result["locations"] = places[:1]
    for number, place in enumerate(places[1:], start=1):
        place["id"] = number
    if places[1:]:
        result["relatedLocations"] = places[1:]
    return result


def _fingerprint(finding: Finding) -> str:
    """The same as long as the rule, the file and the text of the line are."""
    first = finding.evidence[0] if finding.evidence else None
    file = "" if first is None else first.file or ""
    text = "" if first is None else first.excerpt or ""
    line = " ".join(text.split()) or finding.summary
    digest = hashlib.sha256(f"{finding.rule}\n{file}\n{line}".encode())
    return digest.hexdigest()[:_DIGITS]
