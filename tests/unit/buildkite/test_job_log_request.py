# SPDX-License-Identifier: Apache-2.0
"""The job's log by Buildkite's API: bounded, and never worth more than a line if it is not there."""

import asyncio
import socket

import pytest

from ci_doctor.buildkite.job_log import CommandOutput, request_log
from tests.support.canned_server import CannedServer, http

TOKEN = "bkua_0123456789abcdef0123456789abcdef01234567"
OUTPUT = (
    b"$ bash x\nValueError: 3 heads\n\xf0\x9f\x9a\xa8 Error: The command exited with status 1\n"
)
LOG = b"~~~ Running commands\n" + OUTPUT + b"~~~ Running plugin x post-command hook\n"


class RecordingServer(CannedServer):
    """Keeps what it was asked."""

    asked = b""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked = await reader.readuntil(b"\r\n\r\n")
        writer.write(self.reply)
        await writer.drain()
        writer.close()


def variables(endpoint: str) -> dict[str, str]:
    return {
        "BUILDKITE_API_TOKEN": TOKEN,
        "BUILDKITE_REST_API_ENDPOINT": endpoint,
        "BUILDKITE_ORGANIZATION_SLUG": "acme",
        "BUILDKITE_PIPELINE_SLUG": "a/../b",
        "BUILDKITE_BUILD_NUMBER": "12",
        "BUILDKITE_JOB_ID": "0190",
    }


def answered(
    reply: bytes,
    *,
    all_s: float = 10.0,
    most_bytes: int = 4096,
    suffix: str = "",
    token: str = TOKEN,
) -> tuple[CommandOutput | str | None, bytes]:
    """What becomes of `reply`, and what was asked."""

    async def ask() -> tuple[CommandOutput | str | None, bytes]:
        server = RecordingServer(reply)
        async with server.running() as url:
            environ = {**variables(f"{url}{suffix}"), "BUILDKITE_API_TOKEN": token}
            output = await asyncio.to_thread(
                lambda: request_log(environ, all_s=all_s, most_bytes=most_bytes)
            )
        return output, server.asked

    return asyncio.run(ask())


def test_the_output_of_the_command_is_asked_for_by_job() -> None:
    output, asked = answered(http(LOG))

    assert output == CommandOutput(content=OUTPUT)
    line, _, head = asked.partition(b"\r\n")
    path = b"/v2/organizations/acme/pipelines/a%2F..%2Fb/builds/12/jobs/0190/log.txt"
    assert line == b"GET " + path + b" HTTP/1.1"
    assert f"authorization: bearer {TOKEN}".encode() in head.lower()
    assert b"range: bytes=-4096" in head.lower()


@pytest.mark.parametrize(("suffix", "token"), [("/v2", TOKEN), ("/v2/", TOKEN), ("", f"{TOKEN}\n")])
def test_an_endpoint_with_its_version_and_a_token_of_a_file_are_taken(
    suffix: str, token: str
) -> None:
    output, asked = answered(http(LOG), suffix=suffix, token=token)

    assert output == CommandOutput(content=OUTPUT)
    assert asked.startswith(b"GET /v2/organizations/")


@pytest.mark.parametrize(("first", "is_whole"), [(0, True), (700, False)])
def test_a_part_of_the_log_is_known_as_one(first: int, is_whole: bool) -> None:
    ranged = f"Content-Range: bytes {first}-{first + len(LOG) - 1}/{first + len(LOG)}\r\n"

    output, _ = answered(http(LOG, "206 Partial Content", ranged))

    assert isinstance(output, CommandOutput)
    assert (output.problem is None) is is_whole


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (http(b"{}", "401 Unauthorized"), "HTTP 401"),
        (http(b"{}", "500 Internal Server Error"), "HTTP 500"),
        (http(b"", "302 Found", "Location: https://elsewhere.example/\r\n"), "HTTP 302"),
        (http(LOG * 100), "the answer is too large"),
        (http(b"nothing of a job"), "does not show where the command begins"),
        (b"junk\r\n\r\n", "no request is possible (RemoteProtocolError)"),
        (b"", "no request is possible (RemoteProtocolError)"),
    ],
)
def test_whatever_else_comes_is_one_sentence_without_the_token(reply: bytes, words: str) -> None:
    output, _ = answered(reply)

    assert isinstance(output, str)
    assert words in output
    assert TOKEN not in output


def test_an_api_that_is_silent_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        output = request_log(variables(f"http://127.0.0.1:{silent.getsockname()[1]}"), all_s=0.2)

    assert output in {
        "the job's log cannot be had from the API: no whole answer within 0.2 s",
        "the job's log cannot be had from the API: the time for it is over",
    }


@pytest.mark.parametrize("missing", ["BUILDKITE_API_TOKEN", "BUILDKITE_PIPELINE_SLUG"])
def test_without_a_token_or_an_address_nothing_is_asked(missing: str) -> None:
    environ = variables("http://127.0.0.1:1")
    del environ[missing]

    assert request_log(environ) is None


@pytest.mark.parametrize("endpoint", ["no scheme", "http://[", "http://127.0.0.1:99999"])
def test_an_endpoint_that_is_none_is_one_sentence(endpoint: str) -> None:
    assert isinstance(request_log(variables(endpoint)), str)
