# SPDX-License-Identifier: Apache-2.0
"""Reads files: what a pipeline gives one job to do, which a retry of the job shares.

The jobs of a build matrix have one step and may have one label. Then only their commands, plugins,
queues and variables differ. BUILDKITE_ENV_FILE holds a job's variables as Buildkite sent them, one a
line, before any hook changed them (github.com/buildkite/agent, agent/job_runner.go).
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 4 * 1024 * 1024
_LINE: Final = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*)=")
# All others of Buildkite's own name the job, its attempt or its agent.
_OF_THE_STEP: Final = (b"BUILDKITE_COMMAND", b"BUILDKITE_PLUGINS", b"BUILDKITE_ARTIFACT_PATHS")
# The digest is published: nobody is to guess a password by it.
_SECRET: Final = re.compile(rb"TOKEN|SECRET|PASS|KEY|CREDENTIAL|CONNECTION", re.IGNORECASE)
# A job runs on agents of the queue that its step names.
_QUEUE: Final = "BUILDKITE_AGENT_META_DATA_QUEUE"


def work_of(environ: Mapping[str, str]) -> str | None:
    """What stands for the work of the job of `environ`; None if its agent does not tell."""
    try:
        with Path(environ.get("BUILDKITE_ENV_FILE", "")).open("rb") as file:
            content = file.read(_MOST_BYTES)
    except (OSError, ValueError):
        return None
    lines = sorted(line for line in content.splitlines() if _belongs_to_the_step(line))
    if not lines:
        return None
    queue = environ.get(_QUEUE, "").encode(errors="surrogateescape")
    return hashlib.sha256(b"\n".join([queue, *lines])).hexdigest()[:16]


def _belongs_to_the_step(line: bytes) -> bool:
    match = _LINE.match(line)
    if match is None:
        return False
    name = match.group(1)
    if name.startswith(b"BUILDKITE"):
        return name in _OF_THE_STEP
    return _SECRET.search(name) is None
