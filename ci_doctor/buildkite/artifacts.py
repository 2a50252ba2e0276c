# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: searches and downloads the artifacts of all its jobs, by buildkite-agent.

https://buildkite.com/docs/agent/v3/cli-artifact
"""

import re
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.buildkite.agent import Agent, AgentResult
from ci_doctor.buildkite.api_time import moving_s
from ci_doctor.buildkite.artifact import Artifact

# The bytes themselves: agents 3.23 to 3.109.0 print the format as it is, and later ones unquote it as
# Go does (strconv.Unquote), which refuses a real line end. Neither of the two control characters
# stands in a sensible path, so an odd name is told apart from a record.
_FORMAT = "\x1e%j\x1f%s\x1f%p\x1e"
_RECORD = re.compile("\x1e([^\x1e\x1f]*)\x1f([0-9]*)\x1f([^\x1e\x1f]*)\x1e")
_NOTHING = ("no matches found", "no artifacts found")
_NO_SUBCOMMAND = "no help topic"
TOO_OLD = "this buildkite-agent is older than 3.23 and cannot search artifacts"


class BuildAgent(Agent):
    """The agent, for what concerns all jobs of the build."""

    def search_artifacts(
        self, query: str, *, build: str | None = None, timeout_s: float | None = None
    ) -> tuple[tuple[Artifact, ...], AgentResult]:
        """The artifacts matching `query`, those of retried jobs too, and how the call ended.

        A `*` of the query stands for any characters, `/` too. Nothing that matches is no failure.
        build: the id of another build than this job's.
        """
        help_ = self._help(("artifact", "search"), timeout_s)
        if help_.problem is not None and not help_.says(_NO_SUBCOMMAND):
            return (), self._result(["artifact", "search --help"], help_, done="")
        if not self._knows("artifact", "search", flag="format"):
            return (), AgentResult(ok=False, message=TOO_OLD)
        # Without --allow-empty-results, which makes a search that found nothing silent.
        arguments = ["artifact", "search", *self._of_all_attempts("search"), "--format", _FORMAT]
        arguments += _of_build(build)
        call = self._run([*arguments, query], timeout_s=timeout_s)
        if call.has_ended and call.problem is not None and any(map(call.says, _NOTHING)):
            return (), AgentResult(ok=True, message=f"no artifact matches {query}")
        artifacts = tuple(
            Artifact(job=job, path=path, size=int(size or 0))
            for job, size, path in _RECORD.findall(call.output)
        )
        rest = _RECORD.sub("", call.output).strip()
        if call.problem is None and (rest or not artifacts):
            return artifacts, self._not_understood("artifact search", rest)
        done = f"{len(artifacts)} artifacts match {query}"
        return artifacts, self._result(arguments, call, done=done)

    def download_artifacts(
        self,
        query: str,
        into: Path,
        *,
        job: str | None = None,
        build: str | None = None,
        timeout_s: float | None = None,
        sizes: Sequence[int] = (),
    ) -> AgentResult:
        """Download what matches `query` below the directory `into`, under the artifacts' paths.

        `job`: of this job alone. `build`: as above. `sizes`: of the files, in bytes. Of artifacts with the same path, any one is left. The agent drops
        the last part of `into` if a path begins with it.
        """
        arguments = ["artifact", "download", *self._of_all_attempts("download")]
        if job is not None:
            arguments += ["--step", job]
        arguments += _of_build(build)
        # "." in the working directory: a destination without any option in front of it.
        arguments += [query, "."]
        work_s = moving_s(sizes)
        call = self._run(arguments, cwd=into, timeout_s=timeout_s, work_s=work_s)
        return self._result(arguments, call, done=f"downloaded {query}")

    def _of_all_attempts(self, command: str) -> list[str]:
        # Since 3.15.2; without it, the artifacts of retried jobs are left out.
        is_known = self._knows("artifact", command, flag="include-retried-jobs")
        return ["--include-retried-jobs"] if is_known else []


def _of_build(build: str | None) -> list[str]:
    return [] if build is None else ["--build", build]
