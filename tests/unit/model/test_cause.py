# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.diagnosis.outside import retry_policy
from ci_doctor.model.cause import FailureClass, about_retry, fingerprint, is_of_test, likelihood


@pytest.mark.parametrize(
    ("confidence", "words"),
    [
        (0.95, "very likely"),
        (0.9, "very likely"),
        (0.75, "likely"),
        (0.5, "more likely than not"),
        (0.31, "one possibility among others"),
    ],
)
def test_a_confidence_in_words(confidence: float, words: str) -> None:
    assert likelihood(confidence) == words


@pytest.mark.parametrize(
    ("class_", "is_proven", "words"),
    [
        (FailureClass.REGISTRY, True, "can help"),
        (FailureClass.REGISTRY, False, "may pass, but the log does not prove"),
        (FailureClass.IMPORT_RACE, False, "may pass, but the log does not prove"),
        (FailureClass.LINT, False, "useless"),
        (FailureClass.CUDA_ERROR, False, "Ask a person"),
        (None, False, "Ask a person"),
    ],
)
def test_whether_another_run_helps(
    class_: FailureClass | None, is_proven: bool, words: str
) -> None:
    assert words in about_retry(retry_policy(class_, "it broke"), is_proven=is_proven)


def test_of_a_failed_test_nobody_says_that_it_fails_again() -> None:
    words = about_retry(
        retry_policy(FailureClass.TEST_ASSERTION, "assert 3 == 4"), is_proven=False, is_test=True
    )

    assert "unless it is flaky" in words


@pytest.mark.parametrize(
    ("rule", "is_test"),
    [("pytest/worker-crashed", True), ("pytest/usage-error", False), ("python/exception", False)],
)
def test_where_no_test_ran_none_is_flaky(rule: str, is_test: bool) -> None:
    assert is_of_test(FailureClass.CODE_BUG, rule) == is_test


SAME = [
    [
        "RuntimeError: CUDA error: an illegal memory access at 0x7f2a11 on GPU 3",
        "RuntimeError: CUDA error: an illegal memory access at 0x00ffee on GPU 0",
    ],
    [
        "OSError: cannot open /home/a/.cache/torch/kernels/x.so (pid 77)",
        "OSError: cannot open /root/work/2/.cache/torch/kernels/x.so (pid 1234)",
    ],
    [
        "error: could not fetch http://10.0.0.7:8000/v1/models after 12.5 s",
        "error: could not fetch http://host-9.internal:9001/v1/models after 300 s",
    ],
    ["torch 2.7.0+cu128 needs numpy>=1.26", "torch 2.9.1rc2 needs numpy>=2.0"],
    [
        "2026-11-22T14:04:08Z failed to build 95b3699ab12",
        "2025-01-01T00:00:00.123Z failed to build 0ff1ce12345",
    ],
    ["src/a.cc:12:3: error: 'x' was not declared", "/b/src/a.cc:99:1: error: 'x' was not declared"],
    ["KeyError: '/psm_ab12cd34'", "KeyError: '/psm_00ff11ee'"],
    [
        "404 Client Error: Not Found for url: http://10.0.0.7:8000/v1/models/a",
        "404 Client Error: Not Found for url: http://gpu-7:9001/v1/models/a",
    ],
    [
        "The client socket has timed out while trying to connect to (gpu-node-3, 29500).",
        "The client socket has timed out while trying to connect to (ip-10-0-0-1.internal, 31000).",
    ],
    [
        "lost id 9c5b94b1-35ad-49bb-b118-8e8fc24abf80",
        "lost id 00000000-35ad-49bb-b118-000000000000",
    ],
]


@pytest.mark.parametrize("texts", SAME)
def test_builds_hosts_pids_addresses_lines_and_versions_do_not_change_it(texts: list[str]) -> None:
    assert len({fingerprint("a/b", {}, text) for text in texts}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "ModuleNotFoundError: No module named 'torch'",
            "ModuleNotFoundError: No module named 'triton'",
        ),
        ("KeyError: 'layers.3.mlp.gate'", "KeyError: 'layers.3.mlp.up'"),
        ("error CS0103: x", "error CS0246: x"),
        ("a.cc:1: error: 'x' was not declared", "b.cc:1: error: 'x' was not declared"),
        ("no url http://a:8000/v1/models/alpha", "no url http://a:8000/v1/models/beta"),
        ("dtype fp8 is not supported", "dtype fp16 is not supported"),
    ],
)
def test_look_alikes_differ(one: str, other: str) -> None:
    assert fingerprint("a/b", {}, one) != fingerprint("a/b", {}, other)


def test_captures_replace_the_message() -> None:
    first = fingerprint("tests/failed", {"test": "test_x"}, "FAILED test_x in 3 s on host a")
    second = fingerprint("tests/failed", {"test": "test_x"}, "FAILED test_x, see the log")
    other = fingerprint("tests/failed", {"test": "test_y"}, "FAILED test_x, see the log")
    assert first == second
    assert first != other
    assert first != fingerprint("tests/error", {"test": "test_x"}, "")


@pytest.mark.parametrize(
    ("fields", "one", "other"),
    [
        ({"exception": "RuntimeError"}, "RuntimeError: no kernel", "RuntimeError: no weights"),
        ({"code": "E0425"}, "error[E0425]: cannot find `a`", "error[E0425]: cannot find `b`"),
        ({"file": "a.hs"}, "a.hs:1:2: error: no x", "a.hs:7:2: error: no y"),
    ],
)
def test_captures_of_the_kind_alone_leave_the_message(
    fields: dict[str, str], one: str, other: str
) -> None:
    assert fingerprint("a/b", fields, one) != fingerprint("a/b", fields, other)


def test_the_number_of_a_code_is_a_name() -> None:
    assert fingerprint("gpu/fault", {"xid": "79"}, "") != fingerprint(
        "gpu/fault", {"xid": "48"}, ""
    )


def test_what_the_line_is_about_counts() -> None:
    message = "E       assert 4 == 3"
    one = fingerprint("pytest/failed-assertion", {}, message, "test_a[fp8]")
    other = fingerprint("pytest/failed-assertion", {}, message, "test_a[bf16]")
    assert one != other
