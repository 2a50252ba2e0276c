# SPDX-License-Identifier: Apache-2.0
"""Passing tests of the small server, in the way of the tests of an inference engine."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

SERVE = str(Path(__file__).with_name("serve.py"))
FORM = os.environ.get("FORM", "vllm")


def ask(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture(scope="module", params=["plain", "worker-restart", "out-of-memory-retried"])
def server(request):
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port = any_port.getsockname()[1]
    process = subprocess.Popen([sys.executable, SERVE, FORM, str(port), request.param])
    for attempt in range(100):
        try:
            ask(port, "/health")
            break
        except OSError as error:
            print(f"ERROR: server not ready after {attempt} tries: {error}")
            time.sleep(0.2)
    yield port
    process.send_signal(signal.SIGTERM)
    print(f"Server exited, exit code {process.wait()}")


def test_completion(server):
    assert ask(server, "/v1/completions") == 200


@pytest.mark.parametrize("path", ["/v1/raise", "/v1/timeout"])
def test_error_of_a_request_is_answered_with_500(server, path):
    assert ask(server, path) == 500


@pytest.mark.skip(reason="CUDA error: no kernel image is available for execution on the device")
def test_kernels():
    raise AssertionError


@pytest.mark.xfail(reason="AssertionError: outputs differ by 1e-3", strict=True)
def test_outputs_equal():
    assert pytest.approx(0.002) == 0.001
