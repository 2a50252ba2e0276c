# SPDX-License-Identifier: Apache-2.0
"""A stand-in for buildkite-agent: records what it is asked as JSON lines, and refuses what the real one refuses.

Copied from the real one (github.com/buildkite/agent, clicommand/): an unknown flag is fatal and its message; `--help`
lists the flags of the version it plays (annotate --priority from 3.65, artifact upload --literal and --delimiter from
3.110, env set from 3.45); bodies over 1 MiB and contexts over 100 characters are refused; a body or value is read from
stdin where no argument holds it; meta-data may not be blank, and `get` of a key that is not set fails without
--default, and ends a value with a line end from 4.0 on; an annotation that does not exist cannot be removed;
`artifact search` prints `--format` as it is up to 3.109.0, and from 3.109.1 on unquotes it as Go's strconv.Unquote does,
which refuses a real line end; a search that finds nothing fails, or is silent with --allow-empty-results; `artifact upload` splits by the delimiter, takes each
part for a pattern unless it is literal, and ends with 0 where nothing matches; `env set -` reads stdin line by line, at
most 64 KiB each, one JSON object per line, and needs the socket of the job API; `pipeline upload` reads its stdin as YAML, takes
at most 500 steps with their parallel jobs, and refuses a key that a step of the build has already: "Pipeline upload rejected:
The key … has already been used by another step in this build" (github.com/buildkite/agent/issues/3358).

A job calls it some ten times, so that the modules which are slow to import are imported where they are used.
"""

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    ("artifact", "search"): {
        "--step": (3, 23),
        "--build": (3, 23),
        "--include-retried-jobs": (3, 23),
        "--allow-empty-results": (3, 43),
        "--format": (3, 23),
    },
    ("artifact", "download"): {
        "--step": (0, 0),
        "--build": (0, 0),
        "--include-retried-jobs": (3, 16),
    },
    ("env", "set"): {"--input-format": (3, 45), "--output-format": (3, 45)},
    ("pipeline", "upload"): {"--no-interpolation": (3, 1), "--replace": (0, 0)},
}
UNQUOTES_SINCE = (3, 109, 1)
SWITCHES = {
    *("--append", "--literal", "--include-retried-jobs", "--allow-empty-results"),
    *("--no-interpolation", "--replace"),
}


def install(
    folder: "Path",
    log: "Path",
    *,
    version: str = "3.110.0",
    failing: str | None = None,
    broken: str | None = None,
) -> "Path":
    """Put `buildkite-agent` in `folder`; calls of the command `failing` ("annotate", "artifact search") end with status 1, as on HTTP 500.

    Each call of a `broken` one is one of BROKEN.
    """
    folder.mkdir(parents=True, exist_ok=True)
    executable = folder / "buildkite-agent"
    executable.write_text(
        "#!/bin/sh\n"
        f"STAND_IN_LOG='{log}' STAND_IN_VERSION='{version}' STAND_IN_FAILING='{failing or ''}' "
        f"STAND_IN_BROKEN='{broken or ''}' "
        f"exec '{sys.executable}' -I -S '{__file__}' \"$@\"\n"
    )
    executable.chmod(0o755)
    return executable


def calls(log: "Path") -> list[dict[str, object]]:
    """What was asked, in order: `argv`, `stdin`, `cwd`, and what came of it (`files`, `environment`)."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def annotations(log: "Path") -> dict[str, tuple[str, str]]:
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


def metadata(log: "Path") -> dict[str, str]:
    """The build's meta-data."""
    return {str(call["key"]): str(call["value"]) for call in calls(log) if "value" in call}


def main(argv: list[str]) -> None:
    if os.environ["STAND_IN_BROKEN"]:
        BROKEN[os.environ["STAND_IN_BROKEN"]]()
    major, minor = version()[:2]
    command = next((name for name in FLAGS if tuple(argv[: len(name)]) == name), None)
    if command is None:
        end(f"No help topic for '{argv[0]}'", 3)
    known = [flag for flag, since in FLAGS[command].items() if since <= (major, minor)]
    if not known and command[0] == "artifact":
        end(f"No help topic for '{command[1]}'", 3)
    rest = argv[len(command) :]
    if "--help" in rest:
        end("\n".join(f"   {flag} value" for flag in known), 0)
    flags, values = parse(rest, known)
    stdin = sys.stdin.read() if not sys.stdin.isatty() else ""
    if os.environ["STAND_IN_FAILING"] in (command[0], " ".join(command)):
        end(f"fatal: failed to {' '.join(command)}: 500 Internal Server Error", 1)
    result = ANSWERS[command](flags, values, stdin)
    call = {"argv": argv, "flags": flags, "stdin": stdin, "cwd": os.getcwd(), **result}  # noqa: PTH109
    with open(os.environ["STAND_IN_LOG"], "a") as log:  # noqa: PTH123 - one write, appended whole
        log.write(json.dumps(call) + "\n")


def version() -> tuple[int, ...]:
    return tuple(int(part) for part in os.environ["STAND_IN_VERSION"].split("."))


def log_file() -> "Path":
    from pathlib import Path

    return Path(os.environ["STAND_IN_LOG"])


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
    if flags["--context"] not in annotations(log_file()):
        end("fatal: failed to remove annotation: 404 Not Found", 1)
    return {}


def get_metadata(flags: dict[str, str], values: list[str], stdin: str) -> dict[str, object]:
    value = metadata(log_file()).get(values[0], flags.get("--default"))
    if value is None:
        end("fatal: failed to get meta-data: 404 Not Found", 1)
    print(value, end="\n" if version() >= (4,) else "")
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
    names = parts if literal else expanded(parts)
    missing = [name for name in names if not os.path.isfile(name)]  # noqa: PTH113
    if missing:
        end(f"fatal: failed to upload artifacts: open {missing[0]}: no such file or directory", 1)
    job = os.environ.get("BUILDKITE_JOB_ID", "")
    for name in names:
        with open(name, "rb") as file:  # noqa: PTH123
            put_artifact(log_file(), job, name, file.read())
    return {"files": names}


def expanded(patterns: list[str]) -> list[str]:
    import glob

    return [name for each in patterns for name in glob.glob(each, recursive=True)]  # noqa: PTH207


def put_artifact(
    log: "Path",
    job: str,
    path: str,
    content: bytes,
    *,
    retried: bool = False,
    build: str | None = None,
) -> None:
    """Keep an artifact as if `job` had uploaded it; `retried`: that job was retried since.

    build: the id of another build than that of the caller.
    """
    store = log.with_name(f"{log.name}.artifacts")
    store.mkdir(exist_ok=True)
    number = sum(1 for _ in store.glob("*.content"))
    while True:
        # Jobs upload at the same time.
        try:
            with (store / f"{number}.content").open("xb") as file:
                file.write(content)
            break
        except FileExistsError:
            number += 1
    entry = {
        "job": job,
        "path": path,
        "number": number,
        "size": len(content),
        "retried": retried,
        "build": build,
    }
    with (store / "index.jsonl").open("a") as index:
        index.write(json.dumps(entry) + "\n")


def put_build(log: "Path", root: "Path", *, retried: frozenset[str] = frozenset()) -> None:
    """Keep each file below `root` as an artifact of the job whose id begins its path."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            name = path.relative_to(root).as_posix()
            job = name.split("/")[0]
            put_artifact(log, job, name, path.read_bytes(), retried=job in retried)


def artifacts(log: "Path") -> list[dict[str, object]]:
    """All that is on the Artifacts tab: `job`, `path`, `size`, `retried`."""
    index = log.with_name(f"{log.name}.artifacts") / "index.jsonl"
    return [json.loads(line) for line in index.read_text().splitlines()] if index.exists() else []


def artifact_content(log: "Path", path: str) -> bytes:
    """The content of the artifact that was uploaded last under `path`."""
    number = [each["number"] for each in artifacts(log) if each["path"] == path][-1]
    return (log.with_name(f"{log.name}.artifacts") / f"{number}.content").read_bytes()


def matching(flags: dict[str, str], query: str) -> list[dict[str, object]]:
    import re

    pattern = re.compile(".*".join(map(re.escape, query.split("*"))), re.DOTALL)
    step = flags.get("--step")
    return [
        each
        for each in artifacts(log_file())
        if pattern.fullmatch(str(each["path"]))
        and step in (None, each["job"])
        and each["build"] == flags.get("--build")
        and (not each["retried"] or "--include-retried-jobs" in flags or step is not None)
    ]


def search(flags: dict[str, str], values: list[str], stdin: str) -> dict[str, object]:
    found = matching(flags, values[0])
    if not found and "--allow-empty-results" not in flags:
        end(f'fatal: no matches found for "{values[0]}"', 1)
    layout = flags.get("--format", "%j %p %c\n" if version() < UNQUOTES_SINCE else r"%j %p %c\n")
    if version() >= UNQUOTES_SINCE:
        layout = unquoted(layout)
    print(f'INFO   Searching for artifacts: "{values[0]}"', file=sys.stderr)
    for each in found:
        fields = {"j": each["job"], "p": each["path"], "s": each["size"], "i": each["number"]}
        fields["c"] = "2026-11-21T10:00:00Z"
        sys.stdout.write(filled(layout, fields))
    return {"query": values[0]}


def unquoted(layout: str) -> str:
    """As strconv.Unquote of Go reads it between double quotes, which the agent escapes."""
    import re

    escape = r'\\(?:[abfnrtv\\"]|x[0-9a-fA-F]{2}|[0-7]{3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})'
    if "\n" in layout or "\\" in re.sub(escape, "", layout):
        end(f"fatal: unable to parse format {json.dumps(layout)}", 1)
    return re.sub(escape, lambda match: match[0].encode().decode("unicode_escape"), layout)


def filled(layout: str, fields: dict[str, object]) -> str:
    import re

    return re.sub("%([jpsic])", lambda match: str(fields[match[1]]), layout)


def download(flags: dict[str, str], values: list[str], stdin: str) -> dict[str, object]:
    from pathlib import Path

    destination = Path(values[1]).resolve()
    if not destination.is_dir():
        end(f"fatal: failed to download artifacts: {destination} is not a directory", 1)
    found = matching(flags, values[0])
    if not found:
        end("fatal: failed to download artifacts: no artifacts found for downloading", 1)
    log = log_file()
    for each in found:
        parts = [part for part in os.path.normpath(str(each["path"])).split("/") if part]
        while parts[0] == "..":
            parts.pop(0)
        into = destination.parent if parts[0] == destination.name else destination
        target = into.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        store = log.with_name(f"{log.name}.artifacts")
        target.write_bytes((store / f"{each['number']}.content").read_bytes())
    return {"query": values[0], "downloaded": len(found)}


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


def upload_pipeline(flags: dict[str, str], values: list[str], stdin: str) -> dict[str, object]:
    import re

    # A pair of surrogates is no character in YAML, whose parser takes these for line ends, or for none.
    if re.search(r"(?<!\\)(\\\\)*\\u[dD][89a-fA-F]|[\x7f-\x9f\u2028\u2029\ufeff]", stdin):
        end("fatal: Failed to parse pipeline: found invalid Unicode character escape code", 1)
    steps = json.loads(stdin)["steps"]
    if sum(each.get("parallelism", 1) for each in steps) > 500:
        end("fatal: Failed to upload and process pipeline: 422 too many jobs", 1)
    used = {each["key"] for each in uploaded(log_file()) if "key" in each}
    for each in steps:
        if each.get("key") in used:
            rejected = (
                f'The key "{each["key"]}" has already been used by another step in this build'
            )
            end(
                f"fatal: Failed to upload and process pipeline: Pipeline upload rejected: {rejected}",
                1,
            )
    return {"steps": steps}


def uploaded(log: "Path") -> list[dict[str, object]]:
    """All steps that jobs have added to the build, in order."""
    steps: list[dict[str, object]] = []
    for call in calls(log):
        added = call.get("steps", [])
        assert isinstance(added, list)
        steps += added
    return steps


def end(message: str, status: int) -> "NoReturn":
    print(message, file=sys.stdout if status == 0 else sys.stderr)
    raise SystemExit(status)


def refuse() -> None:
    end("fatal: failed: POST https://agent.buildkite.com/v3/: 500 Internal Server Error", 1)


def print_junk() -> None:
    sys.stdout.buffer.write(bytes(range(256)) * 4096)
    raise SystemExit(0)


def hang() -> None:
    import signal

    signal.pause()


def kill_the_caller() -> None:
    import signal

    os.kill(os.getppid(), signal.SIGKILL)
    raise SystemExit(0)


BROKEN = {
    "refuses": refuse,
    "prints junk": print_junk,
    "hangs": hang,
    "kills its caller": kill_the_caller,
}
ANSWERS = {
    ("annotate",): annotate,
    ("annotation", "remove"): remove,
    ("meta-data", "get"): get_metadata,
    ("meta-data", "set"): set_metadata,
    ("artifact", "upload"): upload,
    ("artifact", "search"): search,
    ("artifact", "download"): download,
    ("env", "set"): set_environment,
    ("pipeline", "upload"): upload_pipeline,
}

if __name__ == "__main__":
    main(sys.argv[1:])
