# SPDX-License-Identifier: Apache-2.0
"""Acts on files and the agent: downloads what may be evidence of the artifacts of builds.

Each artifact names its job, so a file without a word about its job is known by it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from ci_doctor.buildkite.artifact_download import ArtifactDownload
from ci_doctor.buildkite.artifacts import TOO_OLD, BuildAgent
from ci_doctor.buildkite.download_plan import DownloadLimits
from ci_doctor.buildkite.named_build import NamedBuild
from ci_doctor.errors import UsageError
from ci_doctor.history.collecting import ENDINGS, MOST_BYTES, NamedFile
from ci_doctor.history.evidence import JobEvidence
from ci_doctor.history.reading.placed_evidence import completed
from ci_doctor.history.results import UnreadableEvidence

LIMITS: Final = DownloadLimits(file_bytes=MOST_BYTES)


class BuildFiles(Struct, frozen=True, kw_only=True):
    """Files of builds on this machine, and what could not be downloaded of them."""

    files: tuple[NamedFile, ...] = ()
    unreadable: tuple[UnreadableEvidence, ...] = ()


def agent_of_job(environ: Mapping[str, str]) -> BuildAgent:
    """The agent of this job. Raises UsageError outside of a Buildkite job."""
    agent = BuildAgent.find(environ)
    if agent is None:
        raise UsageError(
            "--build: this is no Buildkite job with a buildkite-agent",
            hint="download the artifacts, and name their folder",
        )
    return agent


def build_files(
    builds: Sequence[NamedBuild],
    agent: BuildAgent,
    into: Path,
    asked: JobEvidence,
    tell: Callable[[str], None] = lambda _: None,
    *,
    limits: DownloadLimits = LIMITS,
) -> BuildFiles:
    """Download the artifacts of `builds` that may be evidence below `into`; their jobs' retries too.

    asked: what somebody says of their jobs. What could not be downloaded is a part of the result.
    """
    files: list[NamedFile] = []
    unreadable: list[UnreadableEvidence] = []
    for number, build in enumerate(builds):
        tell(f"downloads the artifacts of {build.label}")
        folder = into / f"evidence-{number}"
        download = _downloaded(agent, build, folder, limits)
        files += [
            _named(path, path.relative_to(folder), job, build, asked)
            for path, job in sorted(download.files.items())
        ]
        unreadable += [
            UnreadableEvidence(place=build.label, problem=problem) for problem in download.problems
        ]
    return BuildFiles(files=tuple(files), unreadable=tuple(unreadable))


def _downloaded(
    agent: BuildAgent, build: NamedBuild, folder: Path, limits: DownloadLimits
) -> ArtifactDownload:
    download = ArtifactDownload(agent, folder, limits, build=build.id)
    for ending in ENDINGS:
        # Without a search nothing bounds what comes.
        if download.fetch(f"*{ending}").message == TOO_OLD:
            download.problems.append(TOO_OLD)
            break
    return download


def _named(path: Path, place: Path, job: str, build: NamedBuild, asked: JobEvidence) -> NamedFile:
    known = JobEvidence(
        key=job,
        pipeline=build.pipeline,
        build=build.number,
        branch=build.branch,
        commit=build.commit,
    )
    return NamedFile(
        path=path,
        is_named=False,
        place=f"{build.label}/{place.as_posix()}",
        known=completed(known, asked),
    )
