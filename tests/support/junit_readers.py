# SPDX-License-Identifier: Apache-2.0
"""What each reader of JUnit files takes from one, for tests: each says whose rules it copies."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree as ET

_RED = ("failure", "error")
# Char of https://www.w3.org/TR/xml/#charsets
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def bktec(document: str) -> list[tuple[str, str, str]]:
    """`internal/runner/junit_xml.go`: `testsuites` at the root, `testsuite` below it, no nesting."""
    root = ET.fromstring(document)
    assert root.tag == "testsuites"
    assert {suite.tag for suite in root} <= {"testsuite"}
    cases = root.findall("testsuite/testcase")
    return [(case.attrib["classname"], case.attrib["name"], _status(case)) for case in cases]


def junit_annotate(document: str) -> list[tuple[str, str, str]]:
    """Its `//testsuite/testcase`: an entry for each failure and error child, not for each case."""
    cases = ET.fromstring(document).findall(".//testsuite/testcase")
    return [
        (case.attrib["classname"], case.attrib["name"], child.tag)
        for case in cases
        for child in case
        if child.tag in _RED
    ]


def gitlab(document: str) -> Mapping[tuple[str, str, str | None], str]:
    """A test is one by its classname, name and file; the last of several stands.

    https://docs.gitlab.com/ci/testing/unit_test_reports/
    """
    tests = {}
    for case in ET.fromstring(document).iter("testcase"):
        key = (case.attrib["classname"], case.attrib["name"], case.get("file"))
        tests[key] = _status(case)
    return tests


def not_xml(document: str) -> list[str]:
    """The characters that XML 1.0 has no place for."""
    return _NOT_XML.findall(document)


def _status(case: ET.Element) -> str:
    tags = [child.tag for child in case if child.tag in (*_RED, "skipped")]
    assert len(tags) <= 1
    return tags[0] if tags else "passed"
