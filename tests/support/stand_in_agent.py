# SPDX-License-Identifier: Apache-2.0
"""A stand-in for buildkite-agent: records what it is asked as JSON lines, and refuses what the real one refuses.

Copied from the real one (github.com/buildkite/agent, clicommand/): an unknown flag is fatal and its message; `--help`
lists the flags of the version it plays (annotate --priority from 3.65, artifact upload --literal and --delimiter from
3.110, env set from 3.45); bodies over 1 MiB and contexts over 100 characters are refused; a body or value is read from
stdin where no argument holds it; meta-data may not be blank, and `get` of a key that is not set fails without
--default; an annotation that does not exist cannot be removed; `artifact upload` splits by the delimiter, takes each
part for a pattern unless it is literal, and ends with 0 where nothing matches; `env set -` reads stdin line by line, at
most 64 KiB each, one JSON object per line, and needs the socket of the job API.
"""

import glob
import json
import os
import sys
from pathlib import Path
from typing import NoReturn

FLAGS = {
    ("annotate",): {
        "--style": (0, 0),
        "--context": (0, 0),
        "--append": (0, 0),
        "--priority": (3, 65),
    },
    ("annotation", "remove"): {"--context": (3, 28)},
    ("meta-data", "set"): {"--job": (0, 0)},
    ("meta-data", "get"): {"--job": (0, 0), "--default": (0, 0)},
    ("artifact", "upload"): {
        "--content-type": (0, 0),
        "--literal": (3, 110),
        "--delimiter": (3, 110),
    },
    ("env", "set"): {"--input-format": (3, 45), "--output-format": (3, 45)},
}
SWITCHES = {"--append", "--literal"}


def install(
    folder: Path, log: Path, *, version: str = "3.110.0", failing: str | None = None
) -> Path:
    """Put `buildkite-agent` in `folder`; calls of the command `failing` ("annotate") end with status 1, as on HTTP 500."""
    folder.mkdir(parents=True, exist_ok=True)
    executable = folder / "buildkite-agent"
    executable.write_text(
        "#!/bin/sh\n"
        f"STAND_IN_LOG='{log}' STAND_IN_VERSION='{version}' STAND_IN_FAILING='{failing or ''}' "
        f"exec '{sys.executable}' -I -S '{__file__}' \"$@\"\n"
    )
    executable.chmod(0o755)
    return executable


def calls(log: Path) -> list[dict[str, object]]:
    """What was asked, in order: `argv`, `stdin`, `cwd`, and what came of it (`files`, `environment`)."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def annotations(log: Path) -> dict[str, tuple[str, str]]:
    """The annotations on the build's page, by context: style and body."""
    page: dict[str, tuple[str, str]] = {}
    for call in calls(log):
        flags, argv = call["flags"], call["argv"]
        assert isinstance(flags, dict)
        assert isinstance(argv, list)
        if argv[0] == "annotate":
            page[flags["--context"]] = (flags["--style"], str(call["body"]))
        elif argv[:2] == ["annotation", "remove"]:
            del page[flags["--context"]]
    return page


def metadata(log: Path) -> dict[str, str]:
    """The build's meta-data."""
    return {str(call["key"]): str(call["value"]) for call in calls(log) if "value" in call}


def main(argv: list[str]) -> None:
    major, minor = (int(part) for part in os.environ["STAND_IN_VERSION"].split(".")[:2])
    command = next((name for name in FLAGS if tuple(argv[: len(name)]) == name), None)
    if command is None:
        end(f"No help topic for '{argv[0]}'", 3)
    known = [flag for flag, since in FLAGS[command].items() if since <= (major, minor)]
    rest = argv[len(command) :]
    if "--help" in rest:
        end("\n".join(f"   {flag} value" for flag in known), 0)
    flags, values = parse(rest, known)
    stdin = sys.stdin.read() if not sys.stdin.isatty() else ""
    result = ANSWERS[command](flags, values, stdin)
    if os.environ["STAND_IN_FAILING"] == command[0]:
        end(f"fatal: failed to {' '.join(command)}: 500 Internal Server Error", 1)
    with open(os.environ["STAND_IN_LOG"], "a") as log:  # noqa: PTH123 - one write, appended whole
        log.write(
            json.dumps(
                {"argv": argv, "flags": flags, "stdin": stdin, "cwd": str(Path.cwd()), **result}
            )
            + "\n"
        )


def parse(arguments: list[str], known: list[str]) -> tuple[dict[str, str], list[str]]:
    flags: dict[str, str] = {}
    values: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        name, equals, value = argument.partition("=")
        if argument == "-" or not argument.startswith("-"):
            values.append(argument)
        elif name not in known:
            end(f"Incorrect Usage: flag provided but not defined: {name.removeprefix('-')}", 1)
        else:
            flags[name] = value if equals else "true" if name in SWITCHES else waiting.pop(0)
    return flags, values


def annotate(flags: dict[str, str], values: list[str], stdin: str) -> dict[str, object]:
    body = values[0] if values else stdin
    if len(body.encode()) > 1024 * 1024:
        end(f"fatal: annotation body size ({len(body.encode())}B) exceeds maximum (1048576B)", 1)
    if len(flags.get("--context", "")) > 100 or flags.get("--style") not in (
        "success",
        "info",
        "warning",
        "error",
    ):
        end("fatal: failed to annotate build: 422 Validation failed", 1)
    return {"body": body}


def remove(flags: dict[str, str], values: list[str], stdin: str) -> dict[str, object]:
    if flags["--context"] not in annotations(Path(os.environ["STAND_IN_LOG"])):
        end("fatal: failed to remove annotation: 404 Not Found", 1)
    return {}


def get_metadata(flags: dict[str, str], values: list[str], stdin: str) -> dict[str, object]:
    value = metadata(Path(os.environ["STAND_IN_LOG"])).get(values[0], flags.get("--default"))
    if value is None:
        end("fatal: failed to get meta-data: 404 Not Found", 1)
    print(value)
    return {"key": values[0]}


def set_metadata(flags: dict[str, str], values: list[str], stdin: str) -> dict[str, object]:
    value = values[1] if len(values) > 1 else stdin
    if not value.strip():
        end("fatal: value cannot be empty, or composed of only whitespace characters", 1)
    return {"key": values[0], "value": value}


def upload(flags: dict[str, str], values: list[str], stdin: str) -> dict[str, object]:
    parts = [
        part.strip() for part in values[0].split(flags.get("--delimiter", ";")) if part.strip()
    ]
    literal = "--literal" in flags
    names = (
        parts if literal else [name for part in parts for name in glob.glob(part, recursive=True)]  # noqa: PTH207
    )
    missing = [name for name in names if not Path(name).is_file()]
    if missing:
        end(f"fatal: failed to upload artifacts: open {missing[0]}: no such file or directory", 1)
    return {"files": names}


def set_environment(flags: dict[str, str], values: list[str], stdin: str) -> dict[str, object]:
    if not os.environ.get("BUILDKITE_AGENT_JOB_API_SOCKET"):
        end(
            "fatal: could not create Job API client: BUILDKITE_AGENT_JOB_API_SOCKET empty or undefined",
            1,
        )
    environment: dict[str, str] = {}
    for number, line in enumerate(stdin.split("\n"), 1):
        if len(line) >= 64 * 1024:
            end("fatal: couldn't scan the input buffer: bufio.Scanner: token too long", 1)
        if line:
            try:
                environment |= json.loads(line)
            except ValueError as error:
                end(f"fatal: couldn't parse input line {number}: {error}", 1)
    return {"environment": environment}


def end(message: str, status: int) -> NoReturn:
    print(message, file=sys.stdout if status == 0 else sys.stderr)
    raise SystemExit(status)


ANSWERS = {
    ("annotate",): annotate,
    ("annotation", "remove"): remove,
    ("meta-data", "get"): get_metadata,
    ("meta-data", "set"): set_metadata,
    ("artifact", "upload"): upload,
    ("env", "set"): set_environment,
}

if __name__ == "__main__":
    main(sys.argv[1:])
