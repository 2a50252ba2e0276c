# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: uploads steps whose jobs share the work of one, and gathers the evidence that they leave.

What one job asks of others, in this order:

    step = steps.job_step(template, environ, key=…, task=…, jobs=4)          in the job that asks
    agent.upload_steps([step, steps.job_step(…, after=step["key"])])
    leave(agent, Origin.of(environ, plan=…, task=…), body)            in each job that is asked
    gathered = gather(agent, folder, asked)                           in the step after them

A *plan* is a digest of what all of them work on, a *task* names one part of it. Evidence counts if it is of
this build, this plan, and of a job of a step that was asked for the task. All else is refused, with a sentence.
"""

import gzip
import hashlib
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from ci_doctor.buildkite.agent import Agent, AgentResult
from ci_doctor.buildkite.artifacts import ArtifactDownload, BuildAgent, DownloadLimits
from ci_doctor.buildkite.job import JobEnvironment
from ci_doctor.decodable import decodable
from ci_doctor.errors import InfraError, UsageError
from ci_doctor.system.files.access import own_directory

# --- the steps, in the running build ---

_ESCAPED: Final = re.compile("[\x7f-\uffff]")


def as_yaml(value: Any) -> str:
    """JSON that a YAML parser reads alike: it has no pairs of surrogates, and takes some characters for line ends."""
    return _ESCAPED.sub(
        lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False)
    )


class BuildSteps(BuildAgent):
    """The agent, for a job that adds steps to its build."""

    def upload_steps(self, steps: Sequence[Mapping[str, Any]]) -> AgentResult:
        """Add steps to the running build. That an earlier attempt of this job has done so is no failure.

        Nothing in them is interpolated: a `$` is one.
        """
        arguments = ["pipeline", "upload", "--no-interpolation"]
        # Without a file the agent reads its stdin.
        call = self._run(arguments, body=as_yaml({"steps": list(steps)}))
        # "Pipeline upload rejected: The key "…" has already been used by another step in this build": the keys
        # hold the plan, so the step is ours.
        if call.problem is not None and call.says("has already been used by another step"):
            return AgentResult(ok=True, message="an earlier attempt has uploaded these steps")
        done = f"uploaded {', '.join(str(each['key']) for each in steps)}"
        return self._result(arguments, call, done=done)


# --- evidence of one job, bound to where it comes from ---

_SCHEMA: Final = "ci-doctor/evidence/1"
_FOLDER: Final = "ci-doctor-evidence"
_HEADER_BYTES: Final = 64 * 1024
_LEAST: Final = 16  # digits of the plan in a name


class Origin(Struct, frozen=True, kw_only=True):
    """Where evidence comes from: the build, the plan, the task, the step and the attempt of its job."""

    build: str
    plan: str
    task: str
    step: str
    job: str
    retry: int = 0

    @classmethod
    def of(cls, environ: Mapping[str, str], *, plan: str, task: str) -> "Origin":
        """That of the job of `environ`. Raises UsageError outside a Buildkite job."""
        job = JobEnvironment.from_environ(environ)
        if job is None or job.build_id is None:
            raise UsageError(
                "this is no job of a Buildkite build", hint="leave --fan-out out, or use local:N"
            )
        return cls(
            build=job.build_id,
            plan=plan,
            task=task,
            step=job.step_key or job.step_id or "",
            job=job.job_id,
            retry=job.retry_count,
        )

    def artifact(self, digest: str) -> str:
        """Its path on the Artifacts tab: another content has another one."""
        name = f"{self.task}-{self.job}-{digest[:8]}-{self.plan[:_LEAST]}.evidence.gz"
        return f"{_FOLDER}/{name}"


class _Header(Struct, frozen=True, kw_only=True):
    schema: str = _SCHEMA
    origin: Origin
    sha256: str
    bytes: int


class Evidence(Struct, frozen=True, kw_only=True):
    """What a job left."""

    origin: Origin
    body: bytes


class NotEvidenceError(ValueError):
    """A file is no evidence, or no longer whole. The text is the reason."""


def sealed(origin: Origin, body: bytes) -> bytes:
    """The file of evidence: gzip of one line with origin, length and digest, and of the body."""
    header = _Header(origin=origin, sha256=hashlib.sha256(body).hexdigest(), bytes=len(body))
    # No time: the same evidence has the same bytes.
    return gzip.compress(msgspec.json.encode(header) + b"\n" + body, 1, mtime=0)


def unsealed(content: bytes, limit: int) -> Evidence:
    """The evidence in a file, of at most `limit` bytes. Raises NotEvidenceError if it is not as it was sealed."""
    try:
        with gzip.open(BytesIO(content)) as file:
            header = msgspec.json.decode(file.readline(_HEADER_BYTES), type=decodable(_Header))
            if header.schema != _SCHEMA or not 0 <= header.bytes <= limit:
                raise NotEvidenceError("it has another form, or is too large")
            # One byte more: enough to see that there is more, whatever it would unpack to.
            body = file.read(header.bytes + 1)
    except (OSError, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotEvidenceError(f"it is damaged: {error}") from error
    if len(body) != header.bytes or hashlib.sha256(body).hexdigest() != header.sha256:
        raise NotEvidenceError("its content was changed")
    return Evidence(origin=header.origin, body=body)


def leave(agent: Agent, origin: Origin, body: bytes) -> str:
    """Upload evidence; its path on the Artifacts tab. Raises InfraError: without it the work was for nothing."""
    path = origin.artifact(hashlib.sha256(body).hexdigest())
    try:
        with own_directory("evidence") as folder:
            file = Path(folder, path)
            file.parent.mkdir()
            file.write_bytes(sealed(origin, body))
            result = agent.upload_artifacts([file], Path(folder))
    except OSError as error:
        raise InfraError(
            f"cannot write the evidence: {error.strerror}", hint="free some disk space"
        ) from error
    if not result.ok:
        raise InfraError(f"the evidence is not uploaded: {result.message}", hint="retry this job")
    return path


# --- the evidence of all jobs that were asked ---


class Asked(Struct, frozen=True, kw_only=True):
    """Whose evidence is gathered: `steps` holds the keys of the steps that were asked for each task, in order."""

    build: str
    plan: str
    steps: Mapping[str, tuple[str, ...]]


class Gathered(Struct, frozen=True, kw_only=True):
    """`evidence` by task: that of all attempts which are whole, in their order.

    `refused` are sentences about files that do not count. `problems` say what could not be downloaded: a task
    without evidence may have some.
    """

    evidence: Mapping[str, tuple[Evidence, ...]]
    refused: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


# Answers of thousands of requests with log-probabilities take some hundred MiB.
_LIMITS: Final = DownloadLimits(file_bytes=512 * 1024 * 1024, all_bytes=16 * 1024**3)
_MOST_BODY: Final = 4 * 1024**3


def gather(
    agent: BuildAgent, into: Path, asked: Asked, *, limits: DownloadLimits = _LIMITS
) -> Gathered:
    """Download and judge the evidence of `asked` below the folder `into`, that of retried jobs too."""
    download = ArtifactDownload(agent, into, limits)
    download.fetch(f"*-{asked.plan[:_LEAST]}.evidence.gz")
    files: list[tuple[str, str, Evidence | str]] = []
    for path, job in sorted(download.files.items()):
        try:
            evidence: Evidence | str = unsealed(path.read_bytes(), _MOST_BODY)
        except (OSError, NotEvidenceError) as error:
            evidence = str(error)
        files.append((path.name, job, evidence))
    gathered = chosen(files, asked)
    return msgspec.structs.replace(gathered, problems=tuple(download.problems))


def chosen(files: Sequence[tuple[str, str, Evidence | str]], asked: Asked) -> Gathered:
    """Which of the files count. Each has a name, the job that uploaded it, and evidence or why it is none. Pure."""
    refused: list[str] = []
    attempts: dict[str, dict[tuple[int, int], list[Evidence]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for name, job, evidence in files:
        reason = evidence if isinstance(evidence, str) else _refusal(evidence.origin, job, asked)
        if isinstance(evidence, str) or reason:
            refused.append(f"{name} of job {job}: {reason}")
            continue
        origin = evidence.origin
        order = asked.steps[origin.task].index(origin.step), origin.retry
        attempts[origin.task][order].append(evidence)
    kept: dict[str, tuple[Evidence, ...]] = {}
    for task, tries in attempts.items():
        for _, (one, *others) in sorted(tries.items()):
            # Of one attempt that was made twice, nobody knows which to take.
            if others:
                jobs = ", ".join(sorted({each.origin.job for each in (one, *others)}))
                refused.append(f"{task} was made {len(others) + 1} times by one attempt: {jobs}")
            else:
                kept[task] = (*kept.get(task, ()), one)
    return Gathered(evidence=kept, refused=tuple(refused))


def _refusal(origin: Origin, job: str, asked: Asked) -> str:
    """Why evidence does not count; nothing if it does."""
    return next(_refusals(origin, job, asked), "")


def _refusals(origin: Origin, job: str, asked: Asked) -> Iterator[str]:
    if origin.build != asked.build:
        yield f"it is of another build, {origin.build}"
    if origin.plan != asked.plan:
        yield "it is of another plan"
    if origin.job != job:
        yield f"it was made by job {origin.job}"
    if origin.step not in asked.steps.get(origin.task, ()):
        yield f"the step {origin.step} was not asked for {origin.task}"
