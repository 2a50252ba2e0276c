# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest
from msgspec import structs

from ci_doctor.model.facts.launch import FailureKind, NamedProcess, ServiceFailure
from ci_doctor.services import failure_cause
from ci_doctor.services.failure_cause import descendant_died, died, not_ready
from ci_doctor.services.instance import Allowance, Death, Subject
from ci_doctor.system import clock

HEADER = 'Traceback (most recent call last):\n  File "/app/serve.py", line 3, in <module>\n'
ASSERTION = f"{HEADER}    main()\nAssertionError: the shapes differ\n"


@pytest.fixture(autouse=True)
def _full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_cause, "is_disk_full", lambda *_: True)


DISK_FULL = f"{HEADER}    main()\nOSError: [Errno 28] No space left on device\n"
RATE_LIMIT = (
    f"{HEADER}    main()\nhuggingface_hub.errors.HfHubHTTPError: 429 Client Error: "
    "Too Many Requests for url: https://huggingface.co/api/models/x\n"
)
OUTSIDE = [DISK_FULL, RATE_LIMIT]
SERVED = "".join(f"answered request {number}\n" for number in range(40))


def of_log(log: Path) -> Subject:
    return Subject(name="vllm", pid=1, port=1, log=log, was_ready=True, at=0.0, duration_s=9.0)


def failure_of(log: Path, text: str, death: Death) -> ServiceFailure:
    log.write_text(text)
    return died(of_log(log), death, tuple)


@pytest.mark.parametrize(
    ("user", "clause"),
    [
        (54321, " with mode 0700, and vllm ran as user 54321"),
        (None, "exit code 1"),
        (os.geteuid(), "exit code 1"),
    ],
)
def test_a_path_in_the_cause_that_the_user_of_the_service_may_not_open_is_named(
    tmp_path: Path, user: int | None, clause: str
) -> None:
    model = tmp_path / "model"
    model.mkdir(0o700)
    log = tmp_path / "log"
    log.write_text(f"{HEADER}    main()\nValueError: Invalid repository or directory: '{model}'.\n")
    subject = structs.replace(of_log(log), allowed=Allowance(user=user))
    assert died(subject, Death(returncode=1), tuple).message.endswith(clause)


@pytest.mark.parametrize(
    ("most", "clause"),
    [
        (8, "; it may write no file beyond 8 bytes (ulimit -f), and so long is its log"),
        (9, "exit code 1"),
        (None, "exit code 1"),
    ],
)
def test_a_log_as_long_as_the_service_may_write_a_file_lacks_its_last_words(
    tmp_path: Path, most: int | None, clause: str
) -> None:
    log = tmp_path / "log"
    log.write_text("starting")
    subject = structs.replace(of_log(log), allowed=Allowance(file_bytes=most))
    assert died(subject, Death(returncode=1), tuple).message.endswith(clause)


@pytest.mark.parametrize(
    ("returncode", "ready_s", "died_s", "kind"),
    [
        pytest.param(1, None, 0.1, FailureKind.OUTSIDE, id="at once"),
        pytest.param(1, -1.0, 0.1, FailureKind.OUTSIDE, id="at once, after it was ready"),
        pytest.param(1, 0.5, 1.0, FailureKind.DIED, id="it was ready after the line"),
        pytest.param(1, None, 20.0, FailureKind.DIED, id="long after the line"),
        pytest.param(0, None, 0.1, FailureKind.DIED, id="it ended well"),
        pytest.param(-11, None, 0.1, FailureKind.DIED, id="a signal ended it"),
        pytest.param(139, None, 0.1, FailureKind.DIED, id="a signal ended it, says a shell"),
    ],
)
def test_a_line_of_the_log_proves_only_an_end_that_follows_from_it(
    tmp_path: Path, returncode: int, ready_s: float | None, died_s: float, kind: FailureKind
) -> None:
    log = tmp_path / "log"
    log.write_text(RATE_LIMIT)
    line_at = clock.now()
    os.utime(log, (clock.epoch(), clock.epoch()))
    ready_at = None if ready_s is None else line_at + ready_s
    subject = structs.replace(of_log(log), ready_at=ready_at, at=line_at + died_s)
    assert died(subject, Death(returncode=returncode), tuple).kind is kind


@pytest.mark.parametrize(
    "outside",
    [
        *OUTSIDE,
        "write /models/a: no space left on device\n",
        "EDQUOT: disk quota exceeded, write\n",
    ],
    ids=["a full disk", "a rate limit", "a full disk in Go's words", "a full disk in Node's words"],
)
def test_a_cause_outside_the_change_at_the_end_of_the_log_lies_outside(
    tmp_path: Path, outside: str
) -> None:
    failure = failure_of(tmp_path / "log", SERVED + outside, Death(returncode=1))
    assert failure.kind is FailureKind.OUTSIDE


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("served", ["", SERVED])
@pytest.mark.parametrize("end", [ASSERTION, "Segmentation fault (core dumped)\n"])
def test_what_came_after_a_cause_outside_the_change_is_not_retried_for_it(
    tmp_path: Path, outside: str, served: str, end: str
) -> None:
    text = f"could not refresh the index\n{outside}{served}{end}"
    failure = failure_of(tmp_path / "log", text, Death(returncode=1))
    assert failure.kind is FailureKind.DIED
    assert "by its log" not in failure.message


@pytest.mark.parametrize("outside", OUTSIDE)
def test_a_server_that_went_on_for_long_did_not_die_of_a_cause_outside_the_change(
    tmp_path: Path, outside: str
) -> None:
    failure = failure_of(tmp_path / "log", outside + SERVED, Death(returncode=1))
    assert failure.kind is FailureKind.DIED
    assert failure.cause is not None
    assert not failure.cause.may_be_retried


@pytest.mark.parametrize("outside", OUTSIDE)
def test_a_server_that_went_on_is_explained_by_its_last_words(tmp_path: Path, outside: str) -> None:
    text = outside + SERVED + ASSERTION
    failure = failure_of(tmp_path / "log", text, Death(returncode=1))
    assert failure.cause is not None
    assert failure.cause.place.text == "AssertionError: the shapes differ"
    assert failure.tail_root is not None
    assert failure.tail[failure.tail_root] == "AssertionError: the shapes differ"


def test_a_cause_outside_the_change_counts_with_what_follows_from_it(tmp_path: Path) -> None:
    writer = "(EngineCore_DP0 pid=7) "
    held = (
        "ValueError: Free memory on device cuda:0 (3.1/79.2 GiB) on startup is less than desired "
        "GPU memory utilization (0.9, 71.3 GiB).\n"
    )
    full = "OSError: [Errno 28] No space left on device: '/models/a'\n"
    first = "".join(writer + line for line in (HEADER + full).splitlines(keepends=True))
    text = (
        f"{first}{HEADER}    main()\n"
        "RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}\n"
    )
    failure = failure_of(tmp_path / "log", text, Death(returncode=1))
    assert failure.kind is FailureKind.OUTSIDE
    # Who holds the memory is not in the log: another server of the change, perhaps.
    log = text.replace(full, held)
    assert failure_of(tmp_path / "held", log, Death(returncode=1)).kind is FailureKind.DIED


def test_a_service_that_hangs_without_the_threads_it_asked_for_is_said_to_lack_them(
    tmp_path: Path,
) -> None:
    subject = structs.replace(of_log(tmp_path / "log"), was_ready=False)
    failure = not_ready(subject, "connection refused", Death(returncode=None, task_limit=24))
    assert "its cgroup has a limit of 24" in failure.message


def test_the_kernel_s_word_on_the_memory_of_a_job_stands_above_its_log(tmp_path: Path) -> None:
    death = Death(returncode=-9, oom="the job's cgroup")
    failure = failure_of(tmp_path / "log", DISK_FULL, death)
    assert failure.kind is FailureKind.DIED


MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("peak_rss", "kind"),
    [
        pytest.param(MACHINE // 100, FailureKind.OUTSIDE, id="others had the memory"),
        pytest.param(MACHINE * 3 // 4, FailureKind.DIED, id="it had most of it itself"),
        pytest.param(None, FailureKind.DIED, id="nobody knows"),
    ],
)
def test_the_machines_memory_lies_outside_only_if_others_had_it(
    tmp_path: Path, peak_rss: int | None, kind: FailureKind
) -> None:
    death = Death(returncode=-9, peak_rss=peak_rss, oom="the host", host_oom=True)
    failure = failure_of(tmp_path / "log", "loading\n", death)
    assert failure.kind is kind
    assert "because the host ran out of memory" in failure.message


def test_a_worker_that_the_kernel_killed_may_have_had_the_memory_itself(tmp_path: Path) -> None:
    death = Death(returncode=-9, oom="the host", host_oom=True)
    worker = NamedProcess(pid=7, name="engine")
    failure = descendant_died(of_log(tmp_path / "log"), worker, death)
    assert failure.kind is FailureKind.DIED
