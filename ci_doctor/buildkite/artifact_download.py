# SPDX-License-Identifier: Apache-2.0
"""Acts on files and the agent: downloads artifacts of a build below a folder, within limits.

Two artifacts with one path are kept apart, and each file's job is known.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from ci_doctor.buildkite.agent import AgentResult
from ci_doctor.buildkite.artifact import Artifact
from ci_doctor.buildkite.artifacts import TOO_OLD, BuildAgent
from ci_doctor.buildkite.download_plan import DownloadLimits, DownloadPlan, plan_download, query_of
from ci_doctor.system.files.writing import make_directory


class ArtifactDownload:
    """The state of one download: where each artifact lies, and what went wrong.

    files: the job of each file. problems: sentences about what could not be had; with one, files
    may be missing. own_job: whose artifacts are left out. build: the id of another build.

    No artifact's path may begin with the name of `into`: see BuildAgent.download_artifacts.
    """

    def __init__(
        self,
        agent: BuildAgent,
        into: Path,
        limits: DownloadLimits,
        *,
        own_job: str | None = None,
        build: str | None = None,
    ) -> None:
        self.problems: list[str] = []
        self.files: dict[Path, str] = {}
        self._agent = agent
        self._into = into
        self._limits = limits
        self._own_job = own_job
        self._build = build
        self._deadline = time.monotonic() + limits.all_s

    def fetch(self, name: str) -> AgentResult:
        """Download all artifacts called `name`, or whose names match it; how the search ended."""
        artifacts, result = self._agent.search_artifacts(
            query_of(name), build=self._build, timeout_s=self._call_s()
        )
        if result.message == TOO_OLD:
            return result
        if not result.ok:
            self.problems.append(result.message)
        plan = plan_download(name, artifacts, self._limits, own_job=self._own_job)
        self.problems += plan.problems
        self._fetch_whole(plan)
        for each in plan.by_itself:
            folder = self._into / f"of-{each.job}"
            self._get(each.path, folder, job=each.job, sizes=[each.size])
            self._keep([each], folder)
        return result

    def fetch_unsearched(self, name: str) -> None:
        """Without a search nobody knows which job an artifact is of, nor how large it is."""
        # No artifact is a failure of `download`, as any other.
        self._get(query_of(name), self._into)

    def _fetch_whole(self, plan: DownloadPlan) -> None:
        if not plan.whole:
            return
        folder = self._into
        self._get(plan.query, folder, sizes=[each.size for each in plan.whole])
        kept = self._keep(plan.whole, folder)
        # The query matches an own job's files as well, and those with another's path.
        for path in folder.rglob(plan.name):
            # A folder may have the name too: `job.json/job.json`.
            if path not in kept and path not in self.files and not path.is_dir():
                path.unlink()

    def _keep(self, artifacts: Sequence[Artifact], folder: Path) -> set[Path]:
        """Remember where `artifacts` lie; one that is not there is a problem."""
        paths = {folder / each.path: each for each in artifacts}
        missing = [each for path, each in paths.items() if not path.is_file()]
        for each in missing[:5]:
            self.problems.append(f"{each.path!r} of job {each.job} could not be downloaded")
        if len(missing) > 5:
            self.problems.append(f"{len(missing) - 5} more files could not be downloaded")
        for path, each in paths.items():
            if path.is_file():
                self.files[path] = each.job
        return set(paths)

    def _get(
        self, query: str, folder: Path, *, job: str | None = None, sizes: Sequence[int] = ()
    ) -> None:
        try:
            make_directory(folder)
        except OSError as error:
            self.problems.append(f"{query}: {error.strerror or error}")
            return
        if self._call_s() <= 0:
            result = AgentResult(ok=False, message=f"{query}: the time for downloads is over")
        else:
            result = self._agent.download_artifacts(
                query, folder, job=job, build=self._build, timeout_s=self._call_s(), sizes=sizes
            )
        if not result.ok:
            self.problems.append(result.message)

    def _call_s(self) -> float:
        return min(self._limits.call_s, self._deadline - time.monotonic())
