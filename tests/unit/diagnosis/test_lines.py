# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.diagnosis.log_text import clean_line, without_prefixes, without_stamps


@pytest.mark.parametrize(
    ("line", "words", "time"),
    [
        ("2026-01-02T03:04:05.1234567Z error: x", "error: x", "2026-01-02T03:04:05.1234567Z"),
        ("\ufeff2026-01-02T03:04:05.1Z a", "a", "2026-01-02T03:04:05.1Z"),
        ("build\tRun tests\t2026-01-02T03:04:05.1Z a", "a", "2026-01-02T03:04:05.1Z"),
        ("2026-01-02T03:04:05.123456Z 01E a", "a", "2026-01-02T03:04:05.123456Z"),
        ("[2026-01-02T03:04:05.123Z] a", "a", "2026-01-02T03:04:05.123Z"),
        ("[task 2026-01-02T03:04:05.1Z] 03:04:05    ERROR -  a", "a", "2026-01-02T03:04:05.1Z"),
        ("[taskcluster 2026-01-02 03:04:05.678Z] a", "a", "2026-01-02 03:04:05.678Z"),
        ("[00:01:23] a", "a", "00:01:23"),
        ("[12:30:01]W:\t [Step 1/3] a", "a", "12:30:01"),
        ("00:00:12.345 a", "a", "00:00:12.345"),
        ("#12 4.512 a", "a", None),
        ("2026-01-02T03:04:05.1Z #12 4.512 a", "a", "2026-01-02T03:04:05.1Z"),
    ],
)
def test_the_stamp_of_a_ci_system_is_removed(line: str, words: str, time: str | None) -> None:
    assert without_stamps(line) == (words, time)


@pytest.mark.parametrize("line", ["a\tb\tc", "error: 12:30:01", "#12 DONE 0.3s", "1) a"])
def test_other_words_stay(line: str) -> None:
    assert without_stamps(line) == (line, None)


@pytest.mark.parametrize("raw", [b"nl\x1b[0m  1) closes twice", b"nl  1) closes twice"])
def test_the_mark_of_a_carriage_return_is_no_word(raw: bytes) -> None:
    assert clean_line(raw).text == "  1) closes twice"


def test_a_word_that_begins_like_the_mark_stays() -> None:
    assert clean_line(b"nlohmann/json.hpp").text == "nlohmann/json.hpp"


def test_the_choice_of_a_character_set_is_an_escape() -> None:
    assert clean_line(b"test a ... \x1b[31mFAILED\x1b(B\x1b[m").text == "test a ... FAILED"


@pytest.mark.parametrize(
    ("prefix", "writer", "level"),
    [
        (
            "(EngineCore_DP0 pid=7) ERROR 01-28 15:59:42 [core.py:935] ",
            "(EngineCore_DP0 pid=7)",
            "ERROR",
        ),
        ("(VllmWorker rank=1 pid=7) ", "(VllmWorker rank=1 pid=7)", None),
        (
            "(RayWorkerWrapper pid=7, ip=10.0.0.1) ERROR 12-17 09:40:09 worker_base.py:467] ",
            "(RayWorkerWrapper pid=7, ip=10.0.0.1)",
            "ERROR",
        ),
        ("(raylet, ip=10.0.0.1) ", "(raylet, ip=10.0.0.1)", None),
        ("vllm-1  | INFO:     ", "vllm-1", "INFO"),
        ("[rank3]:[E128 03:24:44.123456789 ProcessGroupNCCL.cpp:629] ", "[rank3]:", "ERROR"),
        ("[rank4]:W0317 07:53:56.045000 2265 torch/_guards.py:283] [14/1] ", "[rank4]:", "WARNING"),
        ("[2026-01-28 15:59:42 DP0 TP3] ", "DP0 TP3", None),
        ("[2026-01-28 15:59:42,820] [ERROR] [MainThread] [vllm.worker] >>> ", None, "ERROR"),
        ("[2026-01-28 15:59:42,123] LMCache ERROR: ", None, "ERROR"),
        ("[2026-01-28 15:59:42,187 E 7 7] logging.cc:484: ", None, "ERROR"),
        ("[2026-01-28 15:59:42 +0000] [7] [CRITICAL] ", None, "CRITICAL"),
        ("2026-01-28 15:59:42,676 ERROR worker.py:405 -- ", None, "ERROR"),
        ("2026-01-28 15:59:42,123 - server - WARNING - ", None, "WARNING"),
        ("2026-01-28 15:59:42.123 | ERROR    | server.app:run:12 - ", None, "ERROR"),
        ("2026-01-28 15:59:42.123456: E external/x/y.cc:123] ", None, "ERROR"),
        ("ERROR 2026-01-28T15:59:42.209110975Z [2026-01-28 15:59:42 TP0] ", "TP0", "ERROR"),
        ("node-1:301:305 [0] NCCL INFO ", "node-1:301:305", "INFO"),
        ("ERROR:asyncio:", None, "ERROR"),
        ("Capturing batches (bs=4):   8%|#3     | 4/51 [00:20<03:35,  4.59s/it]", None, None),
    ],
)
def test_a_prefix_is_taken_off(prefix: str, writer: str | None, level: str | None) -> None:
    prefixed = without_prefixes(prefix + '  File "x.py", line 3')
    assert (prefixed.message, prefixed.writer, prefixed.level) == (
        '  File "x.py", line 3',
        writer,
        level,
    )


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: a | b",
        "ERROR: Could not find a version",
        "/x/y.py:3: error: no",
        "(see above) it failed",
        "tests/test_a.py::test_b FAILED",
        '  File "x.py", line 3',
        "",
    ],
)
def test_what_is_no_prefix_stays(line: str) -> None:
    assert without_prefixes(line).message == line


def test_nothing_is_lost_of_a_line_of_prefixes_only() -> None:
    line = "(A pid=1) " * 3 + "x"
    assert without_prefixes(line).message == "x"
