# SPDX-License-Identifier: Apache-2.0
"""Any report at all, hostile text included, for property tests."""

from hypothesis import settings
from hypothesis import strategies as st

from ci_doctor.model.outcome import (
    Attachment,
    Attempt,
    Case,
    CaseAttempt,
    CaseOutcome,
    Cell,
    Evidence,
    Failure,
    Finding,
    Report,
    Row,
    Severity,
    Table,
    Unit,
    Verdict,
)

# For what is drawn whole, a report or a build: each example holds hundreds of texts, and takes 50 ms to draw and write.
whole = settings(max_examples=min(40, settings().max_examples))

HOSTILE = (
    "</details>", "</summary>", "</code></pre>", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--", "<![CDATA[", "]]>",
    "```", "````text", "~~~", "`", "``", "|", "\n", "\n\n", "\n    ", "\n- x", "\n# x", "\n---\n", "\n===", "\r", "\t", "\x1b[31m", "\x1b]8;;http://evil\x07",
    "\x00", "\x9b1m", "\u202e", "\ud800", "\uffff", "[x](javascript:alert(1))", "![x](http://evil)", "[x]: http://evil", "https://evil.example",
    "www.evil.example", "artifact://x", "&lt;", "&#60;", "\\", "*", "_", "**", "__", ":x:", "1. ", "+ ", "> ", "在垫子上", "👩‍🔬", "e\u0301", " ", "a" * 100,
)  # fmt: skip
TEXT = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(HOSTILE), max_size=8).map("".join))
MAYBE_TEXT = st.none() | TEXT
LINE = st.none() | st.integers(1, 10**6)
SECONDS = st.floats(0, 1e7, allow_nan=False)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FACTS = st.dictionaries(TEXT, VALUES, max_size=3)
EVIDENCE = st.builds(Evidence, file=MAYBE_TEXT, line=LINE, end_line=LINE, excerpt=MAYBE_TEXT)
FINDINGS = st.builds(
    Finding,
    rule=TEXT,
    severity=st.sampled_from(Severity),
    summary=TEXT,
    evidence=st.lists(EVIDENCE, max_size=3).map(tuple),
    remedy=MAYBE_TEXT,
)
CASE_ATTEMPTS = st.builds(
    CaseAttempt,
    outcome=st.sampled_from(CaseOutcome),
    message=MAYBE_TEXT,
    detail=MAYBE_TEXT,
    duration_s=st.none() | SECONDS,
    job=MAYBE_TEXT,
)
CASES = st.builds(
    Case,
    group=TEXT,
    name=TEXT,
    outcome=st.sampled_from(CaseOutcome),
    message=MAYBE_TEXT,
    detail=MAYBE_TEXT,
    duration_s=st.none() | SECONDS,
    attempts=st.lists(CASE_ATTEMPTS, max_size=2).map(tuple),
)
ATTEMPTS = st.builds(
    Attempt,
    name=TEXT,
    outcome=TEXT,
    ok=st.booleans(),
    duration_s=SECONDS,
    log=MAYBE_TEXT,
    facts=st.dictionaries(TEXT, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT),
)
CELLS = st.one_of(
    st.builds(Cell, value=st.none() | st.booleans() | TEXT),
    st.builds(Cell, value=st.integers(0, 2**53) | SECONDS, unit=st.none() | st.sampled_from(Unit)),
)
ROWS = st.builds(Row, label=TEXT, cells=st.lists(CELLS, max_size=3).map(tuple))
TABLES = st.builds(
    Table,
    title=TEXT,
    columns=st.lists(TEXT, max_size=3).map(tuple),
    rows=st.lists(ROWS, max_size=3).map(tuple),
)
ATTACHMENTS = st.builds(Attachment, path=TEXT, title=TEXT)
FAILURES = st.builds(Failure, message=TEXT, hint=MAYBE_TEXT, detail=MAYBE_TEXT)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """A report whose `error` is set exactly where `verdict` is None."""
    verdict = draw(st.none() | st.sampled_from(Verdict))
    return draw(
        st.builds(
            Report,
            tool_version=TEXT,
            command=TEXT,
            argv=st.lists(TEXT, max_size=3).map(tuple),
            started_at=TEXT,
            duration_s=SECONDS,
            verdict=st.just(verdict),
            error=st.none() if verdict else FAILURES,
            exit_code=st.integers(0, 143),
            summary=TEXT,
            reproduce=MAYBE_TEXT,
            findings=st.lists(FINDINGS, max_size=4).map(tuple),
            tables=st.lists(TABLES, max_size=3).map(tuple),
            facts=FACTS,
            cases=st.lists(CASES, max_size=4).map(tuple),
            attempts=st.lists(ATTEMPTS, max_size=3).map(tuple),
            attachments=st.lists(ATTACHMENTS, max_size=3).map(tuple),
        )
    )
