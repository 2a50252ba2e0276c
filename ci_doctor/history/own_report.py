# SPDX-License-Identifier: Apache-2.0
"""Pure. The bytes of a file -> the job and the attempts that it names: a report of ci-doctor, or JUnit XML."""

import codecs
import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final
from xml.parsers import expat

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ci_doctor.decodable import decodable
from ci_doctor.errors import UsageError
from ci_doctor.history.evidence import (
    AttemptEvidence,
    AttemptOutcome,
    JobEvidence,
    ParsedEvidence,
    cause_of_message,
    has_offset,
    milliseconds,
    moment_ms,
    stored_text,
)
from ci_doctor.model.cause import Cause, LogLine, cause_of_report, for_record
from ci_doctor.model.facts.build import SCHEMA as JOB_SCHEMA
from ci_doctor.model.facts.build import JobRecord
from ci_doctor.model.outcome import About, Case, CaseAttempt, CaseOutcome, Report, Verdict
from ci_doctor.model.words import did_you_mean
from ci_doctor.render.json import parse

# --- JUnit XML -> attempts, in every dialect: pytest, Surefire, gtest, and our own files ---

# A document type declaration is refused: no test tool writes one, and entities are what makes XML
# dangerous (https://docs.python.org/3/library/xml.html#xml-security).

_MOST_DEPTH: Final = 64
_LONGEST_ROOT: Final = 80
_MOST_TEXT: Final = 2_000  # characters of a failure's text; its first line names the cause
_FAILURES: Final = {"failure": AttemptOutcome.FAILED, "error": AttemptOutcome.ERROR}
# https://maven.apache.org/surefire/maven-surefire-plugin/examples/rerun-failing-tests.html
_EARLIER: Final = {"flakyFailure": AttemptOutcome.FAILED, "flakyError": AttemptOutcome.ERROR}
_LATER: Final = {"rerunFailure": AttemptOutcome.FAILED, "rerunError": AttemptOutcome.ERROR}
_DECIDING: Final = ("failure", "error", "skipped")
_CHILDREN: Final = {**_FAILURES, **_EARLIER, **_LATER, "skipped": AttemptOutcome.SKIPPED}
_ROOTS: Final = frozenset({"testsuites", "testsuite"})
_TEARDOWN: Final = "failed on teardown"  # pytest's words for an error after the test has ended
_PYTEST: Final = frozenset({"pytest", "pytest tests"})  # its suite, and its root since pytest 8.3
# Of gtest for disabled tests (docs/advanced.md, "Generating an XML Report"), and of ctest.
_NOT_RUN: Final = frozenset({"notrun", "disabled"})
_OWN: Final = "ci-doctor."  # begins the classname of what is about our own run
_VERDICT: Final = "verdict"
_FORM: Final = "junit"
_DECLARED: Final = re.compile(
    rb"""(?:\xef\xbb\xbf)?\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']"""
)
_KNOWN_TO_EXPAT: Final = frozenset({"utf-8", "utf8", "utf-16", "us-ascii", "iso-8859-1"})
# Files in UTF-16 and UTF-32 without a mark of the order of their bytes.
_ENCODINGS: Final = {
    b"<\0?\0": "utf-16-le", b"\0<\0?": "utf-16-be", b"<\0t\0": "utf-16-le", b"\0<\0t": "utf-16-be",
    b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"<\0\0\0": "utf-32-le", b"\0\0\0<": "utf-32-be",
}  # fmt: skip
# https://www.w3.org/TR/xml/#charsets
_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INVALID_TOKEN: Final = expat.errors.codes[expat.errors.XML_ERROR_INVALID_TOKEN]


class OtherXmlError(UsageError):
    """The file is XML, and no JUnit: a report about something else, as of coverage."""


class _Child:
    """A failure, an error or a skip, while it is read."""

    __slots__ = ("kind", "message", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.message = attributes.get("message", "")
        self.kind = attributes.get("type", "")
        self.text = ""


class _Suite(Struct, frozen=True, kw_only=True):
    """An open suite: its number in the file, and what it says itself, or those around it."""

    number: int = 0
    name: str = ""
    host: str = ""
    started_ms: int | None = None


class _Document:
    """What the parser has come to."""

    def __init__(self) -> None:
        self.attempts: list[AttemptEvidence] = []
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.duration_ms = 0
        self.has_offset = False
        self.has_verdict = False
        self._depth = 0
        self._count = 0
        # The suites around what is read.
        self._open = [_Suite()]
        self._case: dict[str, str] = {}
        self._children: list[_Child] = []
        self._child: _Child | None = None
        self._counts: dict[tuple[str, str], int] = {}
        # Of each attempt.
        self._places: list[_Suite] = []
        self._last: dict[tuple[str, str], AttemptOutcome] = {}
        self._is_pytest = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise UsageError("it is nested too deep")
        if self._depth == 1 and tag not in _ROOTS:
            root = tag[:_LONGEST_ROOT]
            raise OtherXmlError(f"its root is <{root}>, and not <testsuites> or <testsuite>")
        if attributes.get("name") in _PYTEST and tag in _ROOTS:
            self._is_pytest = True
        if tag == "testsuite":
            self._begin_suite(attributes)
        elif tag == "testcase":
            self._case = attributes
            self._children = []
        elif tag in _CHILDREN:
            self._child = _Child(tag, attributes)

    def text(self, text: str) -> None:
        child = self._child
        if child is not None and len(child.text) < _MOST_TEXT:
            child.text += text

    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "testsuite":
            self._open.pop()
        elif tag == "testcase":
            self._end_case()
        elif self._child is not None and tag == self._child.tag:
            self._children.append(self._child)
            self._child = None

    def _begin_suite(self, attributes: dict[str, str]) -> None:
        above = self._open[-1]
        own = moment_ms(attributes.get("timestamp"))
        took_ms = milliseconds(attributes.get("time")) or 0
        if above.number == 0:
            self.duration_ms += took_ms
        if own is not None:
            self.begins.append(own)
            self.ends.append(own + took_ms)
            self.has_offset = self.has_offset or has_offset(attributes["timestamp"])
        self._count += 1
        self._open.append(
            _Suite(
                number=self._count,
                name=attributes.get("name", ""),
                host=attributes.get("hostname") or above.host,
                started_ms=above.started_ms if own is None else own,
            )
        )

    def _end_case(self) -> None:
        suite = self._case.get("classname") or self._open[-1].name
        name = self._case.get("name", "")
        if name == _VERDICT and suite.startswith(_OWN):
            # What we said of a whole run, and no test.
            self.has_verdict = True
            return
        if self._children:
            self._end_remarkable_case(suite, name)
        else:
            # Nearly all of them: a test case without a child has passed, if it ran.
            did_run = self._case.get("status") not in _NOT_RUN
            outcome = AttemptOutcome.PASSED if did_run else AttemptOutcome.SKIPPED
            self._add(suite, name, outcome, None, self._case.get("time"))

    def _end_remarkable_case(self, suite: str, name: str) -> None:
        # The child that decides: a failure before an error, either before a skip.
        ranked = [each for each in self._children if each.tag in _DECIDING]
        last = min(ranked, key=lambda each: _DECIDING.index(each.tag), default=None)
        is_of_teardown = last is not None and last.message.startswith(_TEARDOWN)
        if is_of_teardown and self._last.get((suite, name)) is AttemptOutcome.FAILED:
            # pytest writes a test case of its own for it, and the test has run once.
            return
        for child in self._children:
            if child.tag in _EARLIER:
                self._add(suite, name, _CHILDREN[child.tag], child, None)
        outcome = AttemptOutcome.PASSED if last is None else _CHILDREN[last.tag]
        self._add(suite, name, outcome, last, self._case.get("time"))
        for child in self._children:
            if child.tag in _LATER:
                self._add(suite, name, _CHILDREN[child.tag], child, None)

    def _add(
        self,
        suite: str,
        name: str,
        outcome: AttemptOutcome,
        child: _Child | None,
        time: str | None,
    ) -> None:
        number = self._counts.get((suite, name), 0) + 1
        self._counts[suite, name] = number
        self._last[suite, name] = outcome
        self._places.append(self._open[-1])
        own = moment_ms(self._case.get("timestamp"))
        started = self._open[-1].started_ms if own is None else own
        self.attempts.append(
            AttemptEvidence(
                suite=suite,
                name=name,
                outcome=outcome,
                number=number,
                started_ms=started,
                duration_ms=milliseconds(time),
                cause=None if child is None else _cause(outcome, child),
            )
        )

    def all_attempts(self) -> tuple[AttemptEvidence, ...]:
        """The attempts; of pytest's those that were run again have failed.

        pytest-rerunfailures writes their test cases without a child, as if they had passed. Only
        in one suite: a file merged from several runs has a suite of pytest for each.
        """
        if len(self._counts) == len(self.attempts):
            return tuple(self.attempts)
        self._tell_rows_apart()
        if not self._is_pytest:
            return tuple(self.attempts)
        keys = [
            (place.number, each.suite, each.name)
            for place, each in zip(self._places, self.attempts, strict=True)
        ]
        last = {key: each.number for key, each in zip(keys, self.attempts, strict=True)}
        return tuple(
            replace(each, outcome=AttemptOutcome.FAILED)
            if each.number < last[key] and each.outcome is AttemptOutcome.PASSED
            else each
            for key, each in zip(keys, self.attempts, strict=True)
        )

    def _tell_rows_apart(self) -> None:
        """Executions of one test in several suites are no attempts of each other.

        They are browsers (Playwright writes its project as the host), rows of a matrix in a merged file, or two
        tests of one name. A row is called by its host if that tells it apart, else by its place.
        """
        places: dict[tuple[str, str], dict[int, str]] = {}
        for place, each in zip(self._places, self.attempts, strict=True):
            places.setdefault((each.suite, each.name), {})[place.number] = place.host
        for at, (place, each) in enumerate(zip(self._places, self.attempts, strict=True)):
            hosts = places[each.suite, each.name]
            if len(hosts) == 1:
                continue
            row = place.host
            if not row or [*hosts.values()].count(row) > 1:
                row = f"{row} suite {[*hosts].index(place.number) + 1}".strip()
            self.attempts[at] = replace(each, row=stored_text(row))


def _cause(outcome: AttemptOutcome, child: _Child) -> Cause | None:
    if outcome is AttemptOutcome.SKIPPED:
        return None
    return cause_of_message(child.message or child.text, child.kind)


def read_junit(content: bytes) -> ParsedEvidence | None:
    """The attempts of a JUnit file; None for one of ours that holds the verdict of a run alone.

    Several test cases of one classname and name are attempts in their order (pytest-rerunfailures,
    our attempts.xml); so are Surefire's `flakyFailure` and `rerunFailure`. Raises UsageError if it
    is not well-formed, not JUnit, without a test case, or holds a document type declaration.
    """
    document = _Document()
    try:
        _parse(document, content)
    except _InvalidBytesError:
        # Bytes of another encoding in a message, or control characters: the attempts are there all the same.
        document = _Document()
        _parse(document, _mended(content))
    if document.has_verdict and not document.attempts:
        return None
    if not document.attempts:
        raise UsageError("it holds no test case")
    started_ms = min(document.begins, default=None)
    job = JobEvidence(started_ms=started_ms, duration_ms=document.duration_ms or None)
    return ParsedEvidence(
        form=_FORM,
        job=job,
        attempts=document.all_attempts(),
        zoneless_end_ms=None if document.has_offset else max(document.ends, default=None),
    )


class _InvalidBytesError(Exception):
    pass


def _parse(document: _Document, content: bytes | str) -> None:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = document.start
    parser.EndElementHandler = document.end
    parser.CharacterDataHandler = document.text
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(_as_parsed(content) if isinstance(content, bytes) else content, True)
    except expat.ExpatError as error:
        if error.code == _INVALID_TOKEN and isinstance(content, bytes):
            raise _InvalidBytesError from error
        raise UsageError(f"it is not well-formed XML: {error}") from error


def _as_parsed(content: bytes) -> bytes | str:
    """What the parser takes: it knows few encodings itself, and none of several bytes but Unicode's.

    Raises UsageError for an encoding that nobody knows, or bytes that are not of the declared one.
    """
    wide = _ENCODINGS.get(content[:4])
    if wide is not None:
        return content.decode(wide, "backslashreplace")
    declared = _DECLARED.match(content)
    if declared is None:
        return content
    name = declared[1].decode("ascii")
    if name.lower() in _KNOWN_TO_EXPAT:
        return content
    try:
        return content.decode(name)
    except LookupError as error:
        raise UsageError(f"it is not XML that can be read: unknown encoding: {name}") from error
    except (UnicodeError, ValueError) as error:
        raise UsageError(f"it is not in its encoding, {name}: {error}") from error


def _mended(content: bytes) -> str:
    """The text, with bytes that are not UTF-8 and characters that XML does not know in hexadecimal digits."""
    text = content.decode("utf-8", "backslashreplace")
    return _NOT_XML.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _refuse(*_declaration: object) -> None:
    raise UsageError("it holds a document type declaration, which is refused")


# --- a report.json or a job.json of ci-doctor -> its job and its attempts ---

REPORT_SCHEMAS: Final = "ci-doctor/report/"
RECORD_SCHEMAS: Final = "ci-doctor/job/"
_TOO_LARGE: Final = 2**63  # for an integer of the databases
_MERGED: Final = "build_steps"
_OUTCOMES: Final = {
    CaseOutcome.PASSED: AttemptOutcome.PASSED,
    CaseOutcome.FAILED: AttemptOutcome.FAILED,
    CaseOutcome.ERROR: AttemptOutcome.ERROR,
    CaseOutcome.SKIPPED: AttemptOutcome.SKIPPED,
}
_RED: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.ERROR})


def evidence_of(report: Report) -> ParsedEvidence:
    """The cases of a report with all their attempts, and the cause that it names.

    The report of a merged build has none: its parts are evidence of their own.
    """
    started_ms = moment_ms(report.started_at)
    job = msgspec.structs.replace(
        job_of(report.about),
        started_ms=started_ms,
        duration_ms=milliseconds(report.duration_s),
        cause=_stored(cause_of_report(report), report.verdict),
    )
    if _MERGED in report.facts:
        return ParsedEvidence(form="merged report")
    attempts: list[AttemptEvidence] = []
    counts: dict[tuple[str, str], int] = {}
    for case in report.cases:
        # Cases of one group and name are attempts in their order, as in a JUnit file.
        before = counts.get((case.group, case.name), 0)
        tries = case.attempts or (
            CaseAttempt(outcome=case.outcome, message=case.message, duration_s=case.duration_s),
        )
        for number, each in enumerate(tries, start=before + 1):
            began = moment_ms(each.started_at)
            attempts.append(
                _attempt(case, each, number, started_ms if began is None else began, report.verdict)
            )
        counts[case.group, case.name] = before + len(tries)
    return ParsedEvidence(form="report", key=report_key(report), job=job, attempts=tuple(attempts))


def report_key(report: Report) -> str:
    """What identifies the run of a report: 64 hexadecimal digits, as a file's hash has.

    By it a run counts once, whether it wrote to the history itself or its report.json is ingested.
    """
    about = report.about
    parts = (report.command, report.argv, report.started_at, about.job, about.agent, about.commit)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def read_record(raw: Any) -> ParsedEvidence:
    """The job of a decoded job.json. Raises UsageError if it is of another form."""
    try:
        record = msgspec.convert(raw, decodable(JobRecord))
    except msgspec.ValidationError as error:
        raise UsageError(f"it is not the record of a job ({JOB_SCHEMA}): {error}") from error
    began = moment_ms(record.began_at)
    ended = moment_ms(record.ended_at)
    duration_ms = None if began is None or ended is None or ended < began else ended - began
    job = msgspec.structs.replace(
        job_of(record.about),
        label=record.label if record.about.parallel_index is None else None,
        started_ms=began,
        duration_ms=duration_ms,
        cause=_stored(record.cause, record.verdict),
    )
    return ParsedEvidence(form="job record", job=job)


def job_of(about: About) -> JobEvidence:
    """What `about` says of the job. Its key is the id of the job; None outside a job."""
    return JobEvidence(
        key=about.job,
        pipeline=about.pipeline,
        build=about.build if about.build is not None and about.build < _TOO_LARGE else None,
        step=about.step,
        branch=about.branch,
        commit=about.commit,
        agent=about.agent,
        queue=about.queue,
        gpus=len(about.gpus) or None,
    )


def _stored(cause: Cause | None, verdict: str | None) -> Cause | None:
    """`cause` as a database keeps it: the line that shows it is a part of its title."""
    if cause is None:
        return None
    short = for_record(cause)
    is_outside = cause.may_be_retried or verdict == Verdict.INFRA
    return msgspec.structs.replace(
        short, title=short.phrase, place=LogLine(), is_outside=is_outside
    )


def _attempt(
    case: Case, tried: CaseAttempt, number: int, started_ms: int | None, verdict: Verdict | None
) -> AttemptEvidence:
    outcome = _OUTCOMES[tried.outcome]
    is_red = outcome in _RED
    return AttemptEvidence(
        suite=case.group,
        name=case.name,
        outcome=AttemptOutcome.INFRA if is_red and verdict is Verdict.INFRA else outcome,
        number=number,
        started_ms=started_ms,
        duration_ms=milliseconds(tried.duration_s),
        cause=cause_of_message(tried.message or "") if is_red else None,
    )


# --- what is known of a job whose evidence does not say it ---

_MOST_DIGITS: Final = 18  # of an integer of the databases
_FIELDS: Final = {
    "pipeline": "pipeline",
    "build": "build",
    "step": "step",
    "label": "label",
    "job": "key",
    "commit": "commit",
    "branch": "branch",
    "agent": "agent",
    "queue": "queue",
}


def known_job(words: Sequence[str], about: About, label: str | None = None) -> JobEvidence:
    """The words of `--about`; without any, the Buildkite job of `about`, with the label of its step.

    Outside a job nothing is known: the commit of the folder in which somebody ingests downloaded
    files is not theirs. Raises UsageError for a word that is no KEY=VALUE.
    """
    if not words:
        return replace(job_of(about), label=label) if about.job is not None else JobEvidence()
    values: dict[str, Any] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not value:
            raise UsageError(f"--about {word}: it is no KEY=VALUE", hint="such as commit=4fe1a2b")
        if name not in _FIELDS:
            raise UsageError(
                f"--about: nothing of a job is called `{name}`", hint=did_you_mean(name, _FIELDS)
            )
        values[_FIELDS[name]] = _number(value) if name == "build" else value
    return replace(JobEvidence(), **values)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--about build={text}: it is no number", hint="such as build=812")
    if len(text) > _MOST_DIGITS:
        raise UsageError(f"--about build={text}: it is too large", hint="such as build=812")
    return int(text)


# --- the bytes of a file -> what it says, whichever form it has ---

_BOM: Final = codecs.BOM_UTF8
# Of XML in UTF-16 and UTF-32, with a mark of the order of the bytes and without one.
_WIDE: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"\0<", b"\0\0\0<", b"\0\0\xfe\xff")


def parsed(content: bytes) -> ParsedEvidence | None:
    """What the file says; None if it is JSON of something else, or neither JSON nor XML.

    Raises UsageError if it is empty, damaged, or refused for what it holds, and OtherXmlError for XML
    of something else.
    """
    if content.startswith(_WIDE):
        return read_junit(content)
    start = content.removeprefix(_BOM).lstrip()[:1]
    if not start:
        raise UsageError("it is empty")
    if start == b"<":
        return read_junit(content)
    if start in (b"{", b"["):
        return _json(content)
    return None


def _json(content: bytes) -> ParsedEvidence | None:
    try:
        raw = msgspec.json.decode(content.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f"it is not JSON: {error}") from error
    except RecursionError as error:
        raise UsageError("it is nested too deep") from error
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if isinstance(schema, str) and schema.startswith(REPORT_SCHEMAS):
        return evidence_of(parse(content))
    if isinstance(schema, str) and schema.startswith(RECORD_SCHEMAS):
        return read_record(raw)
    return None
