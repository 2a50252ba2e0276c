# SPDX-License-Identifier: Apache-2.0
import gzip
import re
from pathlib import Path

import pytest
from msgspec import structs

from ci_doctor.checks.gpu.xids import XIDS, XidMatter
from ci_doctor.diagnosis.diagnosis import (
    DiagnoseRequest,
    Diagnosis,
    diagnose,
    load_rules,
    outcome_of,
    run,
)
from ci_doctor.explanation import all_rules
from ci_doctor.model.cause import FailureClass, Owner, RetryPolicy
from ci_doctor.model.facts.diagnose import DiagnoseFacts
from ci_doctor.model.outcome import Severity, Verdict
from tests.support.diagnoses import LINES, a_cause, a_diagnosis, cause_of, diagnosed


def test_names_that_mean_nothing_are_unreadable(tmp_path: Path) -> None:
    request = DiagnoseRequest(logs=(str(tmp_path / "none-*.log"), str(tmp_path / "gone.log")))

    diagnosis = run(request)

    assert diagnosis.logs == ()
    assert set(diagnosis.unreadable) == set(request.logs)


def test_progress_names_each_log_up_to_its_end(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("all is well\n" * 1000)
    told: list[str] = []

    run(DiagnoseRequest(logs=(str(tmp_path),)), told.append)

    assert told == [f"reading {tmp_path}/a.log, 100 %", f"reading {tmp_path}/b.log, 100 %"]


def test_a_packed_log_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    lines = "".join(f"line {number} of a log\n" for number in range(5000))
    whole = gzip.compress(lines.encode())
    (tmp_path / "cut.log.gz").write_bytes(whole[: len(whole) // 2])
    name = str(tmp_path / "cut.log.gz")

    diagnosis = run(DiagnoseRequest(logs=(name,)))
    findings = outcome_of(diagnosis).findings

    assert diagnosis.logs == (name,)
    assert "is read in part" in findings[-1].summary


ONE = (
    '  File "server.py", line 68\n    def broken(:\n               ^\nSyntaxError: invalid syntax\n'
)
OTHER = "2026-11-24 09:00:0{} ERROR worker.py:{} -- widget {} does not fit\n"


@pytest.mark.parametrize(
    "texts", [(ONE, ONE), (ONE + ONE,), (OTHER.format(1, 7, 1), OTHER.format(9, 7, 2))]
)
def test_a_failure_that_is_there_twice_is_as_sure_as_once(
    tmp_path: Path, texts: tuple[str, ...]
) -> None:
    (tmp_path / "once").mkdir()
    (tmp_path / "once" / "a.log").write_text(texts[0].replace(ONE + ONE, ONE))
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.log").write_text(text)
    names = tuple(str(tmp_path / f"{number}.log") for number in range(len(texts)))

    once = run(DiagnoseRequest(logs=(str(tmp_path / "once"),), status=1)).cause
    twice = run(DiagnoseRequest(logs=names, status=1)).cause

    assert once is not None
    assert twice is not None
    assert (twice.place.file, twice.place.line) == (names[0], once.place.line)
    assert twice.confidence == pytest.approx(once.confidence, abs=0.02)


@pytest.mark.parametrize(
    "line",
    [
        "AssertionError: expected 3 got 4",
        "RuntimeError: engine is dead",
        "requests.exceptions.ConnectionError: HTTPConnectionPool(host='localhost', port=80): refused",
        "KeyError: 'lm_head'",
    ],
)
def test_what_a_log_says_again_and_again_up_to_its_end_is_its_cause(
    tmp_path: Path, line: str
) -> None:
    ends = {"": True, "exit status 1\n": True, "the next one\n" * 50: False}
    for end, is_named in ends.items():
        cause = diagnosed(tmp_path, "starting\n" + f"{line}\n" * 100 + end).cause
        assert (cause is not None) is is_named, end


def test_the_last_line_of_an_engines_traceback_is_the_cause_whatever_its_key(
    tmp_path: Path,
) -> None:
    for key in ("'model.layers.0.qkv'", "17", "('a', 3)", "None"):
        last = LINES[3].replace("ValueError: 40 heads for 3 GPUs", f"KeyError: {key}")
        cause = cause_of(tmp_path, "\n".join([*LINES[:2], last, "INFO:     Shutting down", ""]))
        assert cause.place.text.endswith(f"KeyError: {key}")


def test_the_first_evidence_is_the_root_line_and_the_second_its_surroundings() -> None:
    outcome = outcome_of(a_diagnosis(a_cause()))

    root, around, consequence = outcome.findings[0].evidence
    assert (root.file, root.line, root.end_line, root.excerpt) == ("server.log", 10, 10, LINES[3])
    assert (around.file, around.line, around.end_line) == ("server.log", 7, 11)
    marked = [line for line in (around.excerpt or "").split("\n") if line.startswith("> ")]
    assert marked == [f"> {LINES[3]}"]
    assert (consequence.file, consequence.line) == ("client.log", 3)


def test_a_named_cause_judges_nothing() -> None:
    outcome = outcome_of(a_diagnosis(a_cause()))

    assert (outcome.verdict, outcome.error) == (None, None)
    assert outcome.findings[0].severity is Severity.ERROR
    assert outcome.findings[0].rule == "diagnose/code-bug"
    assert "80 % sure: server.log:10: ValueError: 40 heads for 3 GPUs" in outcome.summary


def test_facts_hold_the_cause_for_programs() -> None:
    facts = outcome_of(a_diagnosis(a_cause())).facts

    assert isinstance(facts, DiagnoseFacts)
    cause = facts.root_cause
    assert cause is not None
    assert (cause.class_, cause.retry, cause.may_be_retried) == ("code-bug", "no", False)
    assert cause.place.message == "ValueError: 40 heads for 3 GPUs"
    assert cause.fingerprint == "d36b44f3af775a6e"
    assert facts.excerpt is not None
    assert facts.excerpt.messages[2] == "    raise ValueError(text)"


def test_without_a_cause_a_note_shows_the_best_place() -> None:
    outcome = outcome_of(a_diagnosis(None))

    (finding,) = outcome.findings
    assert (finding.rule, finding.severity) == ("diagnose/no-cause", Severity.NOTE)
    assert (finding.evidence[0].file, finding.evidence[0].line) == ("server.log", 10)
    assert isinstance(outcome.facts, DiagnoseFacts)
    assert outcome.facts.root_cause is None
    assert "no cause is named" in outcome.summary


def test_no_readable_log_is_void() -> None:
    outcome = outcome_of(Diagnosis(cause=None, logs=(), unreadable={"gone.log": "No such file"}))

    assert outcome.verdict is Verdict.VOID
    assert [each.rule for each in outcome.findings] == ["diagnose/unreadable-log"]


@pytest.mark.parametrize("text", ["\n" * 60, "   "])
def test_blank_logs_are_void(text: str, tmp_path: Path) -> None:
    outcome = outcome_of(diagnosed(tmp_path, text))

    assert outcome.verdict is Verdict.VOID
    assert "blank lines" in outcome.summary


@pytest.mark.parametrize(
    ("text", "line"),
    [("x" * (17 << 20) + "\n", 1), ("first\n" + "word " * (4 << 20) + "\n", 2), ("x\n" + "\n" * 60, 1)],
)  # fmt: skip
def test_the_last_words_are_shown_however_long_their_line_and_whatever_blank_ones_follow(
    text: str, line: int, tmp_path: Path
) -> None:
    diagnosis = diagnosed(tmp_path, text)

    assert diagnosis.best is not None
    assert diagnosis.best.line == line
    assert outcome_of(diagnosis).verdict is None


def test_the_exit_status_is_asked_for_where_none_was_given(tmp_path: Path) -> None:
    text = "something is odd\n"
    without, given = (outcome_of(diagnosed(tmp_path, text, status)) for status in (None, 137))

    assert "--status N" in (without.findings[0].remedy or "")
    assert all("--status N" not in (each.remedy or "") for each in given.findings)


def test_an_unreadable_log_beside_others_is_a_warning() -> None:
    diagnosis = structs.replace(a_diagnosis(a_cause()), unreadable={"x.log": "binary data"})

    outcome = outcome_of(diagnosis)

    assert outcome.verdict is None
    assert outcome.findings[1].severity is Severity.WARNING
    assert "binary data" in outcome.findings[1].summary


def test_a_cause_without_a_class_is_named_too() -> None:
    outcome = outcome_of(a_diagnosis(a_cause(class_=None)))

    assert outcome.findings[0].rule == "diagnose/unclassified"


def test_every_class_has_a_rule_in_the_catalogue() -> None:
    rules = all_rules()

    for class_ in FailureClass:
        assert rules[f"diagnose/{class_.value}"].meaning


def test_logs_that_end_well_and_hold_nothing_have_no_finding() -> None:
    ended_well = structs.replace(a_diagnosis(None), ended_well=True)

    outcome = outcome_of(ended_well)
    with_candidates = outcome_of(structs.replace(ended_well, n_candidates=1))

    assert (outcome.findings, outcome.verdict) == ((), None)
    assert [each.rule for each in with_candidates.findings] == ["diagnose/no-cause"]
    assert "the last outcome in the logs is a success" in with_candidates.summary


GOOD = """\
loading model at 2026-11-21T10:00:00Z
ERROR: plugin foo is not installed
serving on port 8000
all 12 requests answered
"""


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_an_error_of_the_good_run_explains_nothing(tmp_path: Path) -> None:
    good = write(tmp_path / "good.log", GOOD)
    bad = write(
        tmp_path / "bad.log",
        GOOD.replace("all 12", "only 3") + "ERROR: request 4 has a wrong answer\n",
    )
    assert diagnose([bad], load_rules(), [good]).best != diagnose([bad], load_rules()).best
    best = diagnose([bad], load_rules(), [good]).best
    assert best is not None
    assert best.text == "ERROR: request 4 has a wrong answer"


def test_without_any_candidate_the_first_of_the_last_new_lines_is_shown(tmp_path: Path) -> None:
    good = write(tmp_path / "good.log", GOOD)
    bad = write(
        tmp_path / "bad.log",
        "loading model at 2026-11-22T11:11:11Z\nserving on port 9000\nthe answers are odd today\nand so it goes\n",
    )
    diagnosis = diagnose([bad], load_rules(), [good])
    assert diagnosis.cause is None
    assert diagnosis.best is not None
    assert diagnosis.best.text == "the answers are odd today"


BODY = (
    "starting the widget server",
    "ERROR: optional plugin foo is not installed",
    "loading model weights from the cache",
    "error: cannot read cache entry 3, using defaults",
    "serving on port 8000",
    "all requests were answered",
)
HOSTS = [("alpha", "bravo"), ("gpu-a-17", "gpu-b-2"), ("i-0abc12345def", "i-0fed98765aaa")]


@pytest.mark.parametrize(
    "form",
    ["{} {}", "{}: {}", "[{}] {}", "{} | {}", "<{}> {}", "host={} {}", "09:00:01 {} {}"],
)
@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize(
    "new", ["ERROR: request 4 has a wrong answer", "the answer differs from the reference by 0.3"]
)
def test_the_only_new_line_is_the_cause_whatever_machine_wrote_it(
    tmp_path: Path, form: str, hosts: tuple[str, str], new: str
) -> None:
    good = write(tmp_path / "good.log", "".join(f"{form.format(hosts[0], x)}\n" for x in BODY))
    lines = [*BODY[:-1], new]
    bad = write(tmp_path / "bad.log", "".join(f"{form.format(hosts[1], x)}\n" for x in lines))

    cause = diagnose([bad], load_rules(), [good]).cause

    assert cause is not None
    assert cause.place.line == len(lines)


def test_a_calm_new_line_and_one_of_several_are_no_cause_by_that_alone(tmp_path: Path) -> None:
    good = write(tmp_path / "good.log", GOOD)
    calm = write(tmp_path / "calm.log", f"{GOOD}INFO: request 4 has an odd answer\n")
    several = write(tmp_path / "several.log", f"{GOOD}the first odd thing\nthe second odd line\n")

    assert diagnose([calm], load_rules(), [good]).cause is None
    assert diagnose([several], load_rules(), [good]).cause is None


@pytest.mark.parametrize(
    ("line", "class_"),
    [
        ("openai.APITimeoutError: Request timed out.", FailureClass.NETWORK),
        ("openai.InternalServerError: Error code: 502", FailureClass.NETWORK),
        (
            "HTTPError: 503 Server Error: Service Unavailable for url: http://localhost:8000/v1",
            FailureClass.NETWORK,
        ),
        (
            "slurmstepd: error: *** JOB 7 ON a1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***",
            FailureClass.TIMEOUT,
        ),
        ("OSError: [Errno 28] inotify watch limit reached", FailureClass.RESOURCE_LIMIT),
        (
            "Error: ENOSPC: System limit for number of file watchers reached, watch '/src'",
            FailureClass.RESOURCE_LIMIT,
        ),
        ("mkdir /sys/fs/cgroup/a/b: no space left on device", FailureClass.RESOURCE_LIMIT),
        ("[ 12.5] NVRM: Xid (PCI:0000:3b:00): 63, Row Remapper", FailureClass.GPU_HARDWARE),
        ("ERROR the widget is odd", FailureClass.CODE_BUG),
    ],
)
def test_a_line_that_does_not_tell_whose_fault_it_is_asks_a_person(
    line: str, class_: FailureClass, tmp_path: Path
) -> None:
    cause = cause_of(tmp_path, f"{line}\n", 1)

    assert (cause.class_, cause.retry, cause.owner) == (class_, RetryPolicy.ASK, Owner.UNKNOWN)


def test_a_time_out_without_a_host_is_called_a_server_s(tmp_path: Path) -> None:
    assert "host" not in cause_of(tmp_path, "httpx.ReadTimeout: timed out\n", 1).explanation


@pytest.mark.parametrize(
    "line",
    [
        "curl: (7) Failed to connect to vllm port 8000 after 1 ms: Couldn't connect to server",
        "curl: (18) transfer closed with 100 bytes remaining to read",
        "curl: (28) Operation timed out after 10001 milliseconds with 0 bytes received",
        "curl: (52) Empty reply from server",
        "curl: (56) Recv failure: Connection reset by peer",
        "http.client.RemoteDisconnected: Remote end closed connection without response",
        "aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected",
    ],
)
def test_a_request_whose_server_is_unknown_is_called_neither_a_download_nor_refused(
    line: str, tmp_path: Path
) -> None:
    explanation = cause_of(tmp_path, f"{line}\n", 1).explanation

    assert "does not tell whose server" in explanation
    assert "download" not in explanation
    assert "listens" not in explanation


def test_the_xids_that_are_faults_are_those_of_the_table_of_doctor() -> None:
    fault = load_rules().by_id["gpu/hardware-fault"]
    numbers = {
        number
        for number in range(1, 200)
        if re.search(fault.regex, f"Xid (PCI:0000:3b:00): {number}, ")
    }

    # 94: an ECC error of the GPU that ended one program.
    hardware = {each.number for each in XIDS if each.matter is XidMatter.HARDWARE} | {94}
    assert numbers <= hardware
