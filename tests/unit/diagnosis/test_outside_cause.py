# SPDX-License-Identifier: Apache-2.0
import pytest

from ci_doctor.diagnosis.outside_cause import OutsideCause, outside_cause


@pytest.mark.parametrize(
    ("line", "port"),
    [
        ("OSError: [Errno 98] Address already in use", None),
        (
            "[Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
            8000,
        ),
        ("Error: listen EADDRINUSE: address already in use :::3000", 3000),
        ("Error: listen EADDRINUSE: address already in use 127.0.0.1:3000", 3000),
        (
            "The server socket has failed to listen. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE",
            29500,
        ),
    ],
)
def test_the_port_that_is_taken_is_read_from_the_line(line: str, port: int | None) -> None:
    cause = outside_cause(["before", line])
    assert cause == OutsideCause(
        reason="the address that it wants to listen on is in use", about_port=True, port=port
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("OSError: [Errno 28] No space left on device: '/cache/x'", "no space is left on a disk"),
        ("OSError: [Errno 12] Cannot allocate memory", "the host is out of memory"),
        (
            "ValueError: Free memory on device cuda:0 (3.1/79.2 GiB) on startup is less than desired GPU memory utilization",
            "another process holds the GPU's memory",
        ),
        ("RuntimeError: No CUDA GPUs are available", "no GPU is available"),
    ],
)
def test_a_cause_outside_is_recognised(line: str, reason: str) -> None:
    assert outside_cause([line]) == OutsideCause(reason=reason)


@pytest.mark.parametrize(
    "line",
    ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "ValueError: 98", ""],
)
def test_what_the_change_itself_may_have_caused_is_not_outside(line: str) -> None:
    assert outside_cause([line]) is None
