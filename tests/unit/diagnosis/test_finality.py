# SPDX-License-Identifier: Apache-2.0
"""75 by a log alone: only if the log proves that the change is not at fault, and that the job ended by it."""

from pathlib import Path

import pytest

from ci_doctor.diagnosis.outside import verdict_by_class
from ci_doctor.model.cause import FailureClass
from ci_doctor.model.outcome import Verdict
from tests.support.diagnoses import cause_of, diagnosed


def raising(error: str) -> str:
    """What a program prints that ends by this error."""
    frame = '  File "t.py", line 3, in save\n    out.write(data)\n'
    return f"Traceback (most recent call last):\n{frame}{error}\n"


DISK = raising("OSError: [Errno 28] No space left on device")
NO_DNS = "curl: (6) Could not resolve host: files.pythonhosted.org\n"
NO_GIT_HOST = (
    "fatal: unable to access 'https://github.com/a/b.git/': Could not resolve host: github.com\n"
)
PIP_RETRY = (
    "WARNING: Retrying (Retry(total={}, connect=None, read=None, redirect=None, status=None)) after "
    "connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object "
    "at 0x7f>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': "
    "/simple/torch/\n"
)
PIP_GIVES_UP = (
    "".join(PIP_RETRY.format(left) for left in (4, 3, 2, 1, 0))
    + "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)\n"
    "ERROR: No matching distribution found for torch\n"
)
FRAME = (
    "~~~ Running commands\n$ ci/test.sh\n{}🚨 Error: The command exited with status {}\n"
    'user command error: exit status {}\n~~~ Uploading artifacts\nFound 2 files that match "*.xml"\n'
)

OUTSIDE = [
    DISK,
    NO_DNS,
    PIP_GIVES_UP,
    NO_GIT_HOST,
    (
        "error: RPC failed; curl 56 GnuTLS recv error (-54): Error in the pull function.\n"
        "fatal: early EOF\nfatal: fetch-pack: invalid index-pack output\n"
    ),
    'Error response from daemon: Get "https://registry-1.docker.io/v2/": net/http: TLS handshake timeout\n',
    (
        "npm error code EAI_AGAIN\nnpm error syscall getaddrinfo\nnpm error errno EAI_AGAIN\n"
        "npm error request to https://registry.npmjs.org/left-pad failed, reason: getaddrinfo EAI_AGAIN "
        "registry.npmjs.org\nnpm error A complete log of this run can be found in: /root/.npm/_logs/x.log\n"
    ),
    (
        "Err:1 http://deb.debian.org/debian bookworm/main amd64 jq amd64 1.6\n"
        "  503  Service Unavailable [IP: 151.101.2.132 80]\n"
        "E: Failed to fetch http://deb.debian.org/debian/pool/main/j/jq/jq_1.6.deb  503  Service Unavailable "
        "[IP: 151.101.2.132 80]\nE: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?\n"
    ),
    "cp: error writing '/data/model': No space left on device\nmake: *** [Makefile:3: model] Error 1\n",
    (
        "[ 1234.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus.\n"
        'Traceback (most recent call last):\n  File "a.py", line 2, in <module>\n    x.cuda()\n'
        "RuntimeError: CUDA error: unspecified launch failure\n"
    ),
    "attempt 3 of 3 failed: curl: (6) Could not resolve host: github.com\n",
    # The words of clients, as they print them.
    PIP_GIVES_UP.replace(
        "[Errno -3] Temporary failure in name resolution", "[Errno 111] Connection refused"
    ),
    (
        "error: Request failed after 1 retry in 1.6s\n  cause: Failed to fetch: https://pypi.org/simple/idna/\n"
        "  cause: error sending request for url (https://pypi.org/simple/idna/)\n"
        "  cause: client error (Connect)\n  cause: tcp connect error\n  cause: Connection refused (os error 111)\n"
    ),
    (
        "error: failed to get `itoa` as a dependency of package `p v0.1.0 (/src)`\n\nCaused by:\n  download of "
        "config.json failed\n\nCaused by:\n  failed to download from `https://index.crates.io/config.json`\n\n"
        "Caused by:\n  [7] Could not connect to server (Failed to connect to index.crates.io port 443)\n"
    ),
    (
        "ERROR:  Could not find a valid gem 'rake' (= 13.0.1), here is why:\n          Unable to download data from "
        "https://rubygems.org/ - bad response Service Unavailable 503 (https://rubygems.org/specs.4.8.gz)\n"
    ),
    (
        'time="2026-11-28T17:38:17Z" level=fatal msg="initializing source docker://redis:7: pinging container registry '
        'registry-1.docker.io: Get \\"https://registry-1.docker.io/v2/\\": dial tcp 151.101.0.1:443: connect: connection refused"\n'
    ),
    (
        'go: golang.org/x/text@v0.14.0: Get "https://proxy.golang.org/golang.org/x/text/@v/v0.14.0.info": read tcp '
        "10.0.0.9:43982->142.250.4.141:443: read: connection reset by peer\n"
    ),
    (
        "Cloning into 'b'...\nkex_exchange_identification: read: Connection reset by peer\nConnection reset by 140.82.121.4 "
        "port 22\nfatal: Could not read from remote repository.\n"
    ),
    raising(
        "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: https://hub.example.org/m.bin",
    ),
    raising(
        "httpx.HTTPStatusError: Client error '429 Too Many Requests' for url 'https://hub.example.org/m.bin'\n"
        "For more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/429",
    ),
    "2026-11-28 17:38:36,755 INFO ckpt writing checkpoint\n" + DISK,
    (
        "HTTP Error 503 thrown while requesting HEAD https://huggingface.co/a/b/resolve/main/config.json\n"
        "httpx.HTTPStatusError: Server error '503 Service Unavailable' for url 'https://huggingface.co/a/b'\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        + raising(
            "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub",
        )
    ),
    # A tool indents what another one has written.
    "  error: subprocess-exited-with-error\n\n  × pip subprocess to install build dependencies did not run successfully.\n"
    "  │ exit code: 1\n  ╰─> [7 lines of output]\n"
    + "".join(f"      {line}\n" for line in PIP_GIVES_UP.splitlines())
    + "      [end of output]\n\nerror: subprocess-exited-with-error\n",
    "dd: error writing 'a.img': No space left on device\n6+0 records in\n5+0 records out\n393216 bytes (393 kB) copied, 0.1 s\n",
    # As .NET and Rust say it.
    (
        "Unhandled exception. System.IO.IOException: No space left on device : '/data/model.bin'\n"
        "   at System.IO.RandomAccess.WriteAtOffset(SafeFileHandle handle, Int64 offset)\n"
    ),
    'Error: Os { code: 28, kind: StorageFull, message: "No space left on device" }\n',
    "zmq.error.ZMQError: No space left on device (addr='ipc:///run/a')\n",
    raising(
        "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, "
        'message: "No space left on device" })',
    ),
]
PERHAPS_THE_CHANGE = [
    # A client against the job's own server.
    "curl: (22) The requested URL returned error: 500\n",
    "curl: (22) The requested URL returned error: 503\n",
    "curl: (7) Failed to connect to 127.0.0.1 port 8000 after 0 ms: Couldn't connect to server\n",
    "curl: (52) Empty reply from server\n",
    "curl: (28) Operation timed out after 10001 milliseconds with 0 bytes received\n",
    "curl: (6) Could not resolve host: vllm-server\n",
    "curl: (7) Failed to connect to 10.2.3.4 port 80: Connection refused\n",
    "curl: (7) Failed to connect to kv.default.svc.cluster.local port 80: Connection refused\n",
    "curl: (56) Recv failure: Connection reset by peer\n",
    raising(
        "httpx.RemoteProtocolError: Server disconnected without sending a response.",
    ),
    raising(
        "requests.exceptions.ConnectionError: HTTPConnectionPool(host='localhost', port=8000): Max retries "
        "exceeded with url: /v1/models (Caused by NewConnectionError('refused'))",
    ),
    "+ curl -sSf http://localhost:8000/health\ncurl: (56) Recv failure: Connection reset by peer\n",
    "OSError: [Errno 98] Address already in use\n",
    "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use\n",
    # What stands after it.
    DISK + "accuracy 0.41 is below 0.58\n",
    "accuracy 0.61 is below 0.70\ncp: error writing '/artifacts/a': No space left on device\n",
    DISK + "INFO a request\n" * 3,
    NO_DNS + "going on without the badge\n",
    "WARNING: telemetry: OSError: [Errno 28] No space left on device\n",
    (
        "W: Failed to fetch http://deb.debian.org/debian/dists/bookworm/InRelease  Temporary failure resolving "
        "'deb.debian.org'\nW: Some index files failed to download. They have been ignored, or old ones used instead.\n"
    ),
    PIP_RETRY.format(4),
    "curl: (6) Could not resolve host: github.com\nretry 1 of 3 in 2 s\n",
    "attempt 1/3 failed: curl: (6) Could not resolve host: github.com\nattempt 2/3\n",
    "warning: spurious network error (3 tries remaining): [6] Could not resolve host: index.crates.io\n",
    # Another run meets it again.
    "curl: (22) The requested URL returned error: 404\n",
    "2026-01-02 03:04:05 ERROR 404: Not Found.\n",
    (
        "ERROR: Could not find a version that satisfies the requirement torch==99 (from versions: 2.0, 2.1)\n"
        "ERROR: No matching distribution found for torch==99\n"
    ),
    "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n",
    "curl: (60) SSL certificate problem: self-signed certificate\n",
    "curl: (6) Could not resolve host: githubb.com\n",
    "Looking in indexes: https://pypi.orgg/simple\n"
    + PIP_GIVES_UP.replace(
        "[Errno -3] Temporary failure in name resolution", "[Errno -2] Name or service not known"
    ),
    "Host key verification failed.\nfatal: Could not read from remote repository.\n",
    "fatal: Could not read from remote repository.\n",
    # The index is this machine's.
    "Looking in indexes: http://127.0.0.1:3141/simple\n" + PIP_GIVES_UP,
    # Faults of a program, which the driver reports.
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000008, MMU Fault\n",
    # Events that the driver only records.
    *(f"NVRM: Xid (PCI:0000:3b:00): {number}, pid=77, name=python\n" for number in (63, 92, 121)),
    "Error: ENOSPC: System limit for number of file watchers reached, watch '/src'\n",
    "mkdir: cannot create directory '/sys/fs/cgroup/a/b': No space left on device\n",
    # What a program has caught, says of its own values, or advises.
    "cache: [Errno 28] No space left on device\n",
    'If you see "No space left on device", run: docker system prune\n',
    "No space left on device : see the wiki\n",
    '{"level":"warn","msg":"cache: no space left on device"}\n',
    "+ echo x > /dev/full\nstep.sh: line 2: echo: write error: No space left on device\n",
    raising(
        "ValueError: cannot parse the answer of https://github.com/a/b: 503 Service Unavailable",
    ),
    raising(
        "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: http://localhost:8000/v1",
    ),
    raising(
        "json.decoder.JSONDecodeError: no space left on device: line 1 column 1 (char 0)",
    ),
    # Below the host of a store, names are the change's to spell.
    raising(
        'botocore.exceptions.EndpointConnectionError: Could not connect to "https://m.s3.us-esat-1.amazonaws.com/a": '
        "Name or service not known",
    ),
    (
        "W: Failed to fetch http://dep.debian.ogr/debian/dists/bookworm/InRelease  Could not resolve 'dep.debian.ogr'\n"
        "W: Some index files failed to download. They have been ignored, or old ones used instead.\n"
        "Reading package lists...\nBuilding dependency tree...\nReading state information...\nE: Unable to locate package jq\n"
    ),
    # An indented verdict is no part of what a client says.
    NO_GIT_HOST + "    expected 3 rows\n",
    # Failed tests.
    "FAILED tests/test_a.py::test_disk - OSError: [Errno 28] No space left on device\n1 failed in 0.10s\n",
    "--- FAIL: TestWrite (0.00s)\n    write_test.go:9: open /x: no space left on device\nFAIL\n",
    "  ● saves › writes\n\n    ENOSPC: no space left on device, write\n\nTests:       1 failed, 3 passed, 4 total\n",
    "test_save (t.T) ... ERROR\n\n" + DISK + "\nRan 1 test in 0.001s\n\nFAILED (errors=1)\n",
    "The following tests FAILED:\n\t  1 - disk (Failed)\n"
    + DISK.splitlines()[-1]
    + "\nErrors while running CTest\n",
]


def by_class(text: str, folder: Path, status: int | None = None) -> Verdict:
    return verdict_by_class(diagnosed(folder, text, status).cause)


@pytest.mark.parametrize("text", OUTSIDE)
@pytest.mark.parametrize("frame", ["{}", FRAME])
def test_what_lies_outside_and_ended_the_job_is_retried(
    text: str, frame: str, tmp_path: Path
) -> None:
    status = text[7] if text.startswith("curl: (") else "1"

    assert by_class(frame.format(text, status, status), tmp_path) is Verdict.INFRA


@pytest.mark.parametrize("text", PERHAPS_THE_CHANGE)
@pytest.mark.parametrize("frame", ["{}", FRAME])
def test_what_the_change_may_have_done_is_not_retried(
    text: str, frame: str, tmp_path: Path
) -> None:
    assert by_class(frame.format(text, 1, 1), tmp_path) is Verdict.FAILED


# What a program says in words of its own after a line that lies outside.
OTHER_WORDS = [
    "INFO 200 requests served\nValueError: block_size must be a power of two\n",
    "KeyError: 'block_size'\n",
    "ERROR: failed: KeyError\n",
    "12 passed, 1 failed\n",
    "assert acc > 0.5\nAssertionError\n",
    "server ready\nValueError: bad config\n",
    "ValueError: 3 devices for 2 workers\n",
    'Traceback (most recent call last):\n  File "a.py", line 2, in <module>\n    f()\nValueError: no such device\n',
]


@pytest.mark.parametrize("later", OTHER_WORDS)
def test_other_words_after_any_line_that_lies_outside_leave_doubt(
    later: str, tmp_path: Path
) -> None:
    retried = [text for text in OUTSIDE if by_class(text + later, tmp_path) is Verdict.INFRA]

    assert retried == []


def of_three_processes(*, asserts: str = "") -> str:
    """A worker without disk, as an engine logs it, and both processes above end by it, below 200 lines of frames."""
    frames = "".join(
        f'  File "/v/model.py", line {n}, in forward\n    x = f(x)\n' for n in range(50)
    )
    said = "OSError: [Errno 28] No space left on device"
    logged = "".join(
        f"(Worker pid=7) ERROR 11-29 20:54:53 [executor.py:10] {line}\n"
        for line in f"WorkerProc hit an exception.\nTraceback (most recent call last):\n{frames}{said}".splitlines()
    )
    raised = "Traceback (most recent call last):\n{}RuntimeError: {}\n"
    quoted = (
        f"Worker failed with error '{said}', please check the stack trace above for the root cause"
    )
    last = "Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    return f"{logged}{asserts}{raised.format(frames, quoted)}{raised.format(frames, last)}"


def test_each_process_of_a_server_raises_anew_what_ended_the_one_below(tmp_path: Path) -> None:
    assert by_class(of_three_processes(), tmp_path) is Verdict.INFRA


def test_a_failure_of_the_change_between_is_not_retried_for_the_disk(tmp_path: Path) -> None:
    asserts = 'Traceback (most recent call last):\n  File "/t.py", line 1, in test\n    check()\nAssertionError: 3 != 4\n'
    assert by_class(of_three_processes(asserts=asserts), tmp_path) is Verdict.FAILED


def test_a_connection_that_was_cut_lies_outside_if_the_command_above_names_the_host(
    tmp_path: Path,
) -> None:
    cut = "curl: (56) Recv failure: Connection reset by peer\n"

    assert by_class(f"+ curl -fsSL https://github.com/a.tgz\n{cut}", tmp_path, 56) is Verdict.INFRA
    assert by_class(cut, tmp_path, 56) is Verdict.FAILED


def test_a_script_that_ends_with_another_status_than_curl_got_over_it(tmp_path: Path) -> None:
    assert by_class(FRAME.format(NO_DNS, 6, 6), tmp_path) is Verdict.INFRA
    assert by_class(FRAME.format(NO_DNS, 1, 1), tmp_path) is Verdict.FAILED
    made = NO_DNS + "make: *** [Makefile:3: data] Error 6\n"
    assert by_class(FRAME.format(made, 2, 2), tmp_path) is Verdict.INFRA


@pytest.mark.parametrize(
    ("text", "own", "other"),
    [
        (NO_GIT_HOST, 128, 1),
        ("2026-01-02 03:04:05 ERROR 503: Service Unavailable.\n", 8, 1),
        (DISK, 1, 5),
    ],
)
def test_a_known_status_tells_whether_its_client_ended_the_script(
    text: str, own: int, other: int, tmp_path: Path
) -> None:
    asked = "--2026-01-02--  https://hub.example.org/a\n" + text

    assert by_class(asked, tmp_path, own) is Verdict.INFRA
    assert by_class(asked, tmp_path, other) is Verdict.FAILED


def test_of_a_failed_test_the_line_is_shown_that_says_what_it_met(tmp_path: Path) -> None:
    text = (
        "=== FAILURES ===\n____ test_full ____\n\n    def test_full():\n"
        ">       raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "E       OSError: [Errno 28] No space left on device\n\ntest_it.py:2: OSError\n"
        "FAILED test_it.py::test_full - OSError: [Errno 28] No space left on device\n1 failed in 0.58s\n"
    )

    cause = cause_of(tmp_path, text, 1)

    assert cause.place.text == "E       OSError: [Errno 28] No space left on device"
    assert cause.class_ is FailureClass.TEST_ASSERTION


def test_the_source_below_a_frame_is_no_cause(tmp_path: Path) -> None:
    text = (
        "Exception ignored in: <function A.__del__ at 0x7f>\nTraceback (most recent call last):\n"
        '  File "r.py", line 2, in __del__\n    raise RuntimeError("CUDA error: driver shutting down")\n'
        "RuntimeError: CUDA error: driver shutting down\nserved 20 requests\n"
    )

    assert diagnosed(tmp_path, text).cause is None


def test_the_cause_that_is_shown_is_the_one_that_the_status_rests_on(tmp_path: Path) -> None:
    assertion = (
        "Traceback (most recent call last):\n"
        '  File "score.py", line 9, in <module>\n'
        "    assert score > 0.58, score\n"
        "AssertionError: 0.41\n"
    )
    full = "cp: error writing '/data/model': No space left on device\n"

    diagnosis = diagnosed(tmp_path, full + assertion)

    assert diagnosis.cause is not None
    assert diagnosis.cause.place.text == "AssertionError: 0.41"
    assert [each.line for each in diagnosis.others] == [1]
