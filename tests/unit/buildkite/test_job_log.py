# SPDX-License-Identifier: Apache-2.0
"""The command's own output within the job's log, in which hooks have written, too."""

from pathlib import Path

import pytest

from ci_doctor.buildkite.job_log import CommandOutput, command_output, read_log_file

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
