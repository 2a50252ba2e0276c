# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from msgspec.structs import replace

from ci_doctor.model.cause import FailureClass
from ci_doctor.model.facts.launch import (
    FailureKind,
    LeftBehind,
    LeftKind,
    LeftThing,
    NamedProcess,
    ServiceFailure,
    StopResult,
)
from ci_doctor.model.outcome import Severity, Verdict
from ci_doctor.render import markdown, text
from ci_doctor.services.findings import (
    evidence_of,
    finding_of,
    late_finding,
    leak_findings,
    leak_table,
    stop_findings,
)
from ci_doctor.services.leak_ledger import removal
from tests.support.builders import a_report
from tests.support.diagnoses import a_cause

TRACEBACK = (
    '  File "serve.py", line 12, in main',
    "    load()",
    '  File "kernels.py", line 3, in load',
    '    raise ImportError("no libcudart")',
    "ImportError: no libcudart",
    "cleaning up",
)
DIED = ServiceFailure(
    kind=FailureKind.DIED,
    service="vllm",
    message="vllm died 2.0 s after its start, before it was ready: exit code 1",
    exit_code=1,
    log="logs/vllm-1.log",
    tail=TRACEBACK,
    tail_root=4,
    tail_line=51,
    tail_end_line=56,
    duration_s=2.0,
)
LOST = NamedProcess(pid=7, name="engine")


def rule_of(**changes: Any) -> str:
    return finding_of(replace(DIED, **changes)).rule


def test_the_kind_of_failure_names_the_rule() -> None:
    assert rule_of() == "services/died"
    assert rule_of(kind=FailureKind.NOT_READY) == "services/not-ready"
    assert rule_of(kind=FailureKind.OUTSIDE) == "services/outside"
    assert rule_of(fatal="CUDA error") == "services/fatal-line"
    assert rule_of(processes=("python (pid 7) sleeping",)) == "services/hung"
    assert rule_of(descendant=LOST, message="of other words") == "services/descendant-died"
    assert rule_of(descendant=LOST, kind=FailureKind.OUTSIDE) == "services/outside"
    assert rule_of(oom="its cgroup", signal="SIGKILL") == "services/oom-killed"
    assert rule_of(oom="the machine", kind=FailureKind.OUTSIDE) == "services/oom-killed"


@pytest.mark.parametrize("place", ["cause", "elsewhere"])
@pytest.mark.parametrize("kind", FailureKind)
def test_another_run_is_advised_only_if_the_exit_code_asks_for_one(
    kind: FailureKind, place: str
) -> None:
    cause = a_cause(class_=FailureClass.DISK, is_outside=True)
    failure = replace(DIED, kind=kind, **{place: cause})

    words = [str(each.excerpt) for each in evidence_of(failure)]

    is_advised = any("Another run can help" in each for each in words)
    assert is_advised == (failure.verdict is Verdict.INFRA)


LOST_IMPORT = (*TRACEBACK[:4], "ImportError: cannot import name 'Thing' from 'lazypkg' (/x.py)")


@pytest.mark.parametrize(
    "changes", [{}, {"kind": FailureKind.NOT_READY}, {"fatal": "Error"}, {"descendant": LOST}]
)
def test_the_error_of_an_import_names_the_next_step_after_the_log(changes: dict[str, Any]) -> None:
    told = finding_of(replace(DIED, tail=LOST_IMPORT, **changes)).remedy or ""

    assert told.index("logs/vllm-1.log") < told.index("`ci-doctor import-race probe lazypkg:Thing`")
    assert "import-race" not in (finding_of(replace(DIED, **changes)).remedy or "")


def test_what_a_stop_leaves_has_a_rule_for_each_kind() -> None:
    stopped = StopResult(
        killed=(LOST,),
        survivors=(LOST,),
        duration_s=1,
        not_released=("a",),
        cut_logs=("b",),
        problems=("c",),
    )
    assert [finding.rule.partition("/")[2] for finding in stop_findings(stopped)] == [
        "survivor",
        "not-released",
        "stop-failed",
        "killed",
        "log-cut",
    ]


@pytest.mark.parametrize("render", [text.render, markdown.render])
def test_the_root_line_is_marked_in_what_people_read(render: Any) -> None:
    shown = render(a_report(findings=(finding_of(DIED),)))
    assert "> ImportError: no libcudart\n" in shown
    assert "  cleaning up\n" in shown
    assert "logs/vllm-1.log:51-56" in shown
    assert "less +51 logs/vllm-1.log" in shown


def test_what_followed_and_what_it_took_are_evidence() -> None:
    finding = finding_of(
        replace(DIED, peak_rss=3 << 30, consequences=("kv died 2.1 s after its start",))
    )
    assert [evidence.excerpt for evidence in finding.evidence[1:]] == [
        "peak memory 3.2 GB",
        "then\n  kv died 2.1 s after its start",
    ]


def test_a_service_that_wrote_nothing_says_so() -> None:
    finding = finding_of(replace(DIED, tail=(), tail_line=None, tail_end_line=None))
    assert finding.evidence[0].excerpt == "(it wrote nothing)"
    assert finding.remedy == "less logs/vllm-1.log"


def test_a_service_that_was_never_started_points_at_no_log() -> None:
    finding = finding_of(replace(DIED, kind=FailureKind.NOT_READY, log=None))
    assert (finding.evidence, finding.severity) == ((), Severity.ERROR)


def test_an_end_beside_a_good_client_is_a_warning() -> None:
    finding = late_finding(DIED)
    assert (finding.rule, finding.severity) == ("services/ended-with-client", Severity.WARNING)
    assert (finding.evidence, finding.remedy) == (finding_of(DIED).evidence, None)


def test_many_processes_are_named_in_short() -> None:
    killed = tuple(NamedProcess(pid=number, name="w") for number in range(1, 6))
    (finding,) = stop_findings(StopResult(killed=killed, duration_s=1.0))
    assert finding.summary.startswith("w (pid 1), w (pid 2), w (pid 3) and 2 more ignored")
    assert finding.severity is Severity.NOTE


def thing(name: str, *services: str, **fields: Any) -> LeftThing:
    kind = LeftKind.SHARED_MEMORY
    fields = {"why": "held by it", "remedy": removal(kind, name), **fields}
    return LeftThing(kind=kind, name=name, services=services, **fields)


def test_a_few_things_are_named_with_the_commands_that_remove_them() -> None:
    left = LeftBehind(things=(thing("/dev/shm/a b", "api"), thing("/dev/shm/c", "kv")))
    (finding,) = leak_findings(left)
    assert finding.summary == "api and kv left behind 2 things: shared memory"
    assert finding.severity is Severity.WARNING
    assert finding.remedy == "rm '/dev/shm/a b'; rm /dev/shm/c"
    (evidence,) = finding.evidence
    assert (evidence.excerpt or "").splitlines() == [
        "shared memory /dev/shm/a b, held by it",
        "shared memory /dev/shm/c, held by it",
    ]


def test_many_things_are_one_sentence() -> None:
    left = LeftBehind(things=tuple(thing(f"/dev/shm/{name}", "api") for name in "abcd"))
    (finding,) = leak_findings(left)
    assert (finding.summary, finding.evidence) == (
        "api left behind 4 things: shared memory",
        (),
    )


def test_what_a_strict_service_leaves_is_an_error_of_its_own() -> None:
    left = LeftBehind(things=(thing("a", "api"), thing("b", "api", strict=True)))
    strict, other = leak_findings(left)
    assert (strict.severity, strict.remedy) == (Severity.ERROR, "rm b")
    assert (other.severity, other.remedy) == (Severity.WARNING, "rm a")


def test_what_a_strict_service_hides_is_an_error() -> None:
    (finding,) = leak_findings(LeftBehind(unseen=("python (pid 7)",)))
    assert (finding.rule, finding.severity) == ("services/leaks-unseen", Severity.ERROR)


def test_what_nobody_is_known_to_have_made_is_no_finding_and_no_table() -> None:
    left = LeftBehind(unknown={"/tmp": 3})
    assert list(leak_findings(left)) == []
    assert leak_table(left) == ()


def test_the_table_has_a_row_for_each_service_and_kind_and_counts_the_rest() -> None:
    own = "/tmp/ci-doctor-tmp.start."
    left = LeftBehind(
        things=(
            thing("/dev/shm/a", "api", "kv", size=4096),
            *(thing(f"/dev/shm/{name}", "kv", size=1024) for name in ("psm_1", "psm_2")),
            *(thing(f"{own}{start}/{start * 4}", "kv", known="sockets") for start in ("abcdefgh", "ijklmnop")),
            *(thing(f"/srv/{name}/x", "kv", known="files") for name in "ab"),
            *(thing(name, "kv", known="ports") for name in ("80", "81")),
        ),
        unknown={"/tmp": 3},
    )  # fmt: skip
    (table,) = leak_table(left)
    assert [[row.label, *(cell.value for cell in row.cells)] for row in table.rows] == [
        ["api and kv", "shared memory", "/dev/shm/a, 4 kB"],
        ["kv", "shared memory", "2 in /dev/shm, 2 kB, such as psm_1"],
        ["kv", "sockets", "2 in $TMPDIR, such as abcdefghabcdefghabc…"],
        ["kv", "files", "2 in 2 directories, such as x"],
        ["kv", "ports", "2, such as 80"],
        ["owner unknown", "new meanwhile", "3 in /tmp"],
    ]


def test_each_kind_of_thing_has_the_command_that_removes_it() -> None:
    assert removal(LeftKind.SYSV_SHARED_MEMORY, "5") == "ipcrm -m 5"
    assert removal(LeftKind.SYSV_SEMAPHORES, "5") == "ipcrm -s 5"
    assert removal(LeftKind.SYSV_QUEUE, "5") == "ipcrm -q 5"
    assert removal(LeftKind.TEMPORARY_DIRECTORY, "/tmp/x") == "rm -r /tmp/x"
    # It goes with a directory of ours.
    assert removal(LeftKind.TEMPORARY_FILE, "/tmp/ci-doctor-tmp.start.abcdefgh/x") is None
