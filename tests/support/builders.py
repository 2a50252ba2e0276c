# SPDX-License-Identifier: Apache-2.0
"""Reports to test with: small defaults that a test changes by name, and one realistic report per kind of ending."""

from typing import Any

from msgspec.structs import replace

from ci_doctor.model.exit_code import ExitCode
from ci_doctor.model.outcome import (
    EXIT_CODES,
    Attachment,
    Attempt,
    Case,
    CaseOutcome,
    Evidence,
    Failure,
    Finding,
    RemedyKind,
    Report,
    Severity,
    Verdict,
    text_table,
)

ERROR = Failure(
    message="ci-doctor.toml:7: unknown key `comand` in [services.vllm]",
    hint="did you mean `command`?",
)


def a_finding(severity: Severity = Severity.ERROR, **changes: Any) -> Finding:
    """A finding without evidence or remedy; `changes` are fields of Finding."""
    finding = Finding(
        rule="preload/not-armed",
        severity=severity,
        summary="another module of that name comes first",
    )
    return replace(finding, **changes)


def a_report(verdict: Verdict | None = Verdict.PASS, **changes: Any) -> Report:
    """A minimal report with the exit code that belongs to `verdict` (None: a usage error); `changes` are fields of Report."""
    report = Report(
        tool_version="0.1.0",
        command="correctness",
        argv=("ci-doctor", "correctness", "--retries", "3"),
        started_at="2026-11-03T09:30:00.000Z",
        duration_s=192.4,
        verdict=verdict,
        error=None if verdict else ERROR,
        exit_code=_code(verdict),
        summary="candidate gave the same bytes as baseline on 100 of 100 requests"
        if verdict
        else ERROR.message,
    )
    return replace(report, **changes)


def _code(verdict: Verdict | None) -> ExitCode:
    if verdict is None:
        return ExitCode.USAGE
    return ExitCode.PASS if verdict is Verdict.FLAKY else EXIT_CODES[verdict]


def sample_reports() -> dict[str, Report]:
    """One realistic report per kind of ending: pass, flaky, regression, infra, void and error."""
    return {
        "pass": _passed(),
        "flaky": _flaky(),
        "regression": _regression(),
        "infra": _infra(),
        "void": _void(),
        "error": a_report(None),
    }


def _passed() -> Report:
    return a_report(
        tables=(
            text_table(
                title="Answers",
                lines=(
                    "baseline   1 start   100/100 answered",
                    "candidate  1 start   100/100 answered, lmcache:num_hit_tokens 18432",
                ),
            ),
        ),
        facts={"python": "3.12.4", "gpu": None, "requests": 100},
        cases=tuple(_case(f"r{number}") for number in range(3)),
        attempts=(_attempt("baseline 1", 41.2), _attempt("candidate 1", 44.9)),
        attachments=(Attachment(path="samples.jsonl", title="every answer, one line each"),),
        reproduce="ci-doctor correctness --retries 3",
    )


def _flaky() -> Report:
    return a_report(
        Verdict.FLAKY,
        summary="the baseline differs from itself on 55 of 100 requests; the candidate shows nothing that it has not shown",
        tables=(
            text_table(
                title="Starts",
                lines=(
                    "answered 100/100 in each of 4 starts",
                    "clusters  {baseline 1}  {baseline 2, candidate 1, candidate 2}",
                ),
            ),
            text_table(
                title="First divergence",
                lines=("request r17, character 212: `…the cat sat` and `…the cat sits`",),
            ),
        ),
        findings=(
            a_finding(
                Severity.WARNING,
                rule="correctness/baseline-not-reproducible",
                summary="two starts of the baseline give different bytes",
                evidence=(
                    Evidence(excerpt="baseline 1 against baseline 2: 55 of 100 requests differ"),
                ),
                remedy="ci-doctor setup-env --determinism strict",
                remedy_kind=RemedyKind.COMMAND,
            ),
        ),
        cases=(
            _case("r0"),
            _case("r17"),
            _case("r18", CaseOutcome.SKIPPED, message="the baseline differs from itself"),
        ),
        attempts=(
            _attempt("baseline 1", 41.2),
            _attempt("candidate 1", 44.9),
            _attempt("baseline 2", 40.8),
            _attempt("candidate 2", 45.3),
        ),
        attachments=(Attachment(path="samples.jsonl", title="every answer, one line each"),),
        reproduce="ci-doctor correctness --baseline-starts 2 --retries 2 --only r17",
    )


def _regression() -> Report:
    return a_report(
        Verdict.REGRESSION,
        summary="the candidate differs from the baseline on 4 of 100 requests, in every one of 3 starts",
        tables=(
            text_table(
                title="Answers",
                lines=(
                    "baseline   2 starts  100/100 answered, all the same",
                    "candidate  3 starts  100/100 answered, 4 differ",
                ),
            ),
        ),
        findings=(
            a_finding(
                rule="correctness/differs",
                summary="request r17 gets another answer from the candidate, first at character 212",
                evidence=(
                    Evidence(
                        file="samples.jsonl",
                        line=118,
                        excerpt="baseline   …the cat sat on the mat\ncandidate  …the cat sits 在垫子上 and",
                    ),
                    Evidence(
                        file="logs/candidate-1/vllm.log",
                        line=4012,
                        end_line=4013,
                        excerpt="\x1b[33mWARNING\x1b[0m 11-03 09:31:12 [cache_engine.py:214] hash of block 12 seen twice\n| end of `block table` ```",
                    ),
                ),
                remedy="ci-doctor correctness --baseline 'vllm serve Qwen/Qwen2.5-14B-Instruct --port {port} --enforce-eager' --only r17",
                remedy_kind=RemedyKind.COMMAND,
            ),
            a_finding(
                Severity.NOTE,
                rule="environment/overwritten",
                summary="vLLM in batch-invariant mode sets `CUBLAS_WORKSPACE_CONFIG` itself",
            ),
        ),
        cases=(
            _case("r0"),
            _case(
                "r17",
                CaseOutcome.FAILED,
                message="differs at character 212",
                detail="baseline  …sat\ncandidate …sits",
            ),
        ),
        attempts=(
            _attempt("baseline 1", 41.2),
            _attempt("candidate 1", 44.9),
            _attempt("baseline 2", 40.8),
            Attempt(
                name="candidate 2",
                outcome="died before ready: exit code 3",
                ok=False,
                duration_s=7.31,
                log="logs/candidate-2/vllm.log",
                facts={"exit_code": 3},
            ),
            _attempt("candidate 3", 45.3),
        ),
        attachments=(
            Attachment(path="samples.jsonl", title="every answer, one line each"),
            Attachment(path="logs/candidate-2/vllm.log", title="log of candidate 2"),
        ),
        reproduce="ci-doctor correctness --baseline 'vllm serve Qwen/Qwen2.5-14B-Instruct --port {port}' --candidate './serve.sh {port}' --only r17",
    )


def _infra() -> Report:
    return a_report(
        Verdict.INFRA,
        summary="neither arm could be started: port 8000 belongs to another process",
        duration_s=3.2,
        findings=(
            a_finding(
                Severity.WARNING,
                rule="services/port-in-use",
                summary="port 8000 is held by process 4242 (`python -m http.server 8000`)",
                evidence=(
                    Evidence(
                        file="logs/baseline-1/vllm.log",
                        line=31,
                        excerpt="OSError: [Errno 98] Address already in use",
                    ),
                ),
                remedy="use `{port}` in the command instead of a fixed port, or end the process with `kill 4242`",
            ),
        ),
        attempts=(
            Attempt(
                name="baseline 1",
                outcome="died before ready: exit code 1",
                ok=False,
                duration_s=3.04,
                log="logs/baseline-1/vllm.log",
            ),
        ),
        reproduce="ci-doctor correctness",
    )


def _void() -> Report:
    return a_report(
        Verdict.VOID,
        summary="the candidate's own path never ran: lmcache:num_hit_tokens stayed 0 over 100 requests",
        findings=(
            a_finding(
                Severity.WARNING,
                rule="correctness/no-proof",
                summary="`lmcache:num_hit_tokens` should be above 0 and is 0",
                evidence=(
                    Evidence(
                        file="logs/candidate-1/metrics.txt",
                        line=88,
                        excerpt="lmcache:num_hit_tokens 0.0",
                    ),
                ),
            ),
        ),
        attempts=(_attempt("baseline 1", 41.2), _attempt("candidate 1", 44.9)),
    )


def _case(name: str, outcome: CaseOutcome = CaseOutcome.PASSED, **changes: Any) -> Case:
    return replace(
        Case(group="correctness.prompts", name=name, outcome=outcome, duration_s=0.25), **changes
    )


def _attempt(name: str, duration_s: float) -> Attempt:
    return Attempt(
        name=name,
        outcome="answered 100/100",
        ok=True,
        duration_s=duration_s,
        log=f"logs/{name.replace(' ', '-')}/vllm.log",
    )
