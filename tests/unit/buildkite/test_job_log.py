# SPDX-License-Identifier: Apache-2.0
"""The command's own output within the job's log, in which hooks have written, too."""

import asyncio
import socket
from pathlib import Path

import pytest

from ci_doctor.buildkite.rest import (
    CommandOutput,
    command_output,
    read_log_file,
    request_log,
    without_echo,
)
from tests.support.canned_server import CannedServer, http

STAMP = "\x1b_bk;t=1763800000000\x07"
BEFORE = (
    "~~~ Preparing working directory\n$ git clean -ffxdq\n"
    "~~~ Running plugin ci-doctor pre-command hook\nerror: No space left on device\n"
)
OUTPUT = "$ bash ci/serving.sh\nTraceback (most recent call last):\nValueError: 3 heads\n"
END = "^^^ +++\n\x1b[31m🚨 Error: The command exited with status 1\x1b[0m\n"
AFTER = "~~~ Running plugin ci-doctor post-command hook\nanother error\n"


def log(*parts: str, stamped: bool = False, newline: str = "\n") -> bytes:
    lines = "".join(parts).splitlines()
    return "".join(f"{STAMP if stamped else ''}{line}{newline}" for line in lines).encode()


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "header",
    [
        "~~~ Running commands\n",
        "~~~ Running script\n",
        "~~~ Running plugin docker command hook\n",
        "~~~ Running agent command hook\n",
    ],
)
def test_hooks_before_and_after_the_command_do_not_count(
    header: str, newline: str, stamped: bool
) -> None:
    whole = log(BEFORE, header, OUTPUT, END, AFTER, stamped=stamped, newline=newline)

    assert command_output(whole) == CommandOutput(
        content=log(OUTPUT, END, stamped=stamped, newline=newline)
    )


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_command_that_the_agent_prints_is_no_output(newline: str, stamped: bool) -> None:
    command = "set -e\necho 'Read timed out'"
    printed = log(f"$ {command}\n", "ok\n", stamped=stamped, newline=newline)

    output = without_echo(CommandOutput(content=printed), command)

    assert output.content == log("ok\n", stamped=stamped, newline=newline)
    assert without_echo(output, command) is output


def test_a_command_that_a_signal_ended() -> None:
    end = "^^^ +++\n🚨 Error: The command was interrupted by a signal: signal: killed\n"

    output = command_output(log(BEFORE, "~~~ Running commands\n", OUTPUT, end, AFTER))

    assert output == CommandOutput(content=log(OUTPUT, end))


def test_a_command_that_prints_such_marks_itself_hides_nothing() -> None:
    spoof = f"~~~ Running commands\n{END}{AFTER}AssertionError\n"

    output = command_output(log(BEFORE, "~~~ Running commands\n", spoof, END, AFTER))

    assert output == CommandOutput(content=log(spoof, END))


def test_without_its_beginning_a_log_is_not_taken_for_the_command() -> None:
    assert command_output(log(BEFORE, AFTER)) is None
    assert command_output(b"") is None


def test_an_end_that_is_not_written_yet_is_a_doubt() -> None:
    output = command_output(log(BEFORE, "~~~ Running commands\n", OUTPUT))

    assert output is not None
    assert output.content == log(OUTPUT)
    assert output.problem is not None


def test_the_end_of_a_log_is_a_part_of_it() -> None:
    output = command_output(log(OUTPUT, END, AFTER), is_whole=False)

    assert output is not None
    assert output.content == log(OUTPUT, END)
    assert output.problem == "only the end of the job's log was read"


def bytes_read() -> int:
    """What this process has read(2) so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(lines[0].removeprefix("rchar: "))


class TestFile:
    """BUILDKITE_JOB_LOG_TMPFILE."""

    def read(self, path: Path, **limits: float) -> CommandOutput | str | None:
        return read_log_file({"BUILDKITE_JOB_LOG_TMPFILE": str(path)}, wait_s=0, **limits)  # type: ignore[arg-type]

    def test_the_agents_file_gives_the_output(self, tmp_path: Path) -> None:
        path = tmp_path / "job.log"
        path.write_bytes(log(BEFORE, "~~~ Running commands\n", OUTPUT, END, AFTER))

        assert self.read(path) == CommandOutput(content=log(OUTPUT, END))

    def test_a_long_log_is_read_from_its_end(self, tmp_path: Path) -> None:
        path = tmp_path / "job.log"
        path.write_bytes(log(BEFORE, "~~~ Running commands\n", OUTPUT, END, AFTER))

        output = self.read(path, most_bytes=len(log(END, AFTER)))

        assert isinstance(output, CommandOutput)
        assert output.content == log(END)
        assert output.problem == "only the end of the job's log was read"

    def test_a_log_that_does_not_grow_is_read_once(self, tmp_path: Path) -> None:
        path = tmp_path / "job.log"
        path.write_bytes(log(BEFORE, "~~~ Running commands\n", OUTPUT) + b"x" * 200_000)
        before = bytes_read()

        output = read_log_file({"BUILDKITE_JOB_LOG_TMPFILE": str(path)}, wait_s=0.25)

        assert isinstance(output, CommandOutput)
        assert output.problem == "the agent had not yet written how the command ended"
        assert bytes_read() - before < 2 * path.stat().st_size

    def test_an_agent_without_the_option_has_none(self) -> None:
        assert read_log_file({}) is None
        assert read_log_file({"BUILDKITE_JOB_LOG_TMPFILE": ""}) is None

    def test_a_file_that_is_gone_or_a_pipe_is_a_sentence(self, tmp_path: Path) -> None:
        assert "cannot be read: No such file" in str(self.read(tmp_path / "gone"))
        assert "cannot be read" in str(self.read(tmp_path))

    def test_a_log_without_a_command_is_a_sentence(self, tmp_path: Path) -> None:
        path = tmp_path / "job.log"
        path.write_bytes(log(BEFORE))

        assert self.read(path) == "the job's log does not show where the command begins"


TOKEN = "bkua_0123456789abcdef0123456789abcdef01234567"
OUTPUT_JOB_LOG_REQUEST = (
    b"$ bash x\nValueError: 3 heads\n\xf0\x9f\x9a\xa8 Error: The command exited with status 1\n"
)
LOG = (
    b"~~~ Running commands\n" + OUTPUT_JOB_LOG_REQUEST + b"~~~ Running plugin x post-command hook\n"
)


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

    assert output == CommandOutput(content=OUTPUT_JOB_LOG_REQUEST)
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

    assert output == CommandOutput(content=OUTPUT_JOB_LOG_REQUEST)
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
