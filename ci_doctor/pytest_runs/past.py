# SPDX-License-Identifier: Apache-2.0
"""Pure. Earlier runs of a test at the base of a change -> whether they prove a regression."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from ci_doctor.render.formatting import amount, percent

# That a constant rate of failure looks like a regression.
HIGHEST_CHANCE: Final = 0.01


class PastJob(Struct, frozen=True, kw_only=True):
    """A job in which a test passed or failed, `distance` commits before the base.

    at: RFC 3339. A job with one failed attempt of the test has failed.
    """

    distance: int
    commit: str
    at: str
    passed: bool
    build: int | None = None


class PastReader(Protocol):
    """What a history is asked; each question raises CiDoctorError if there is no answer."""

    def jobs(
        self, commits: Sequence[str], tests: Collection[str]
    ) -> Mapping[str, Sequence[PastJob]]:
        """By node id, the jobs of `commits`, of which the first is the base."""

    def known(self, commits: Sequence[str], tests: Collection[str]) -> frozenset[str]:
        """Those of `tests` that ran at one of `commits`."""

    def long_green(self, tests: Collection[str]) -> str | None:
        """How long `tests` have been green, as a clause; None if they have not, or not for long."""


class PastProof(Struct, frozen=True, kw_only=True):
    """What the history shows of a test that fails now, as a clause."""

    is_regression: bool
    text: str


def proof_of(jobs: Sequence[PastJob], failures: int) -> PastProof:
    """Whether `jobs` prove that a test with `failures` failed attempts and no other passed before."""
    passed = [job for job in jobs if job.passed]
    failed = len(jobs) - len(passed)
    if not passed:
        text = f"it failed in {_all(failed)} at the base" if failed else "no run of it at the base"
        return PastProof(is_regression=False, text=text)
    last = min(passed, key=lambda job: job.distance)
    if last.distance:
        text = f"it last passed {amount(last.distance, 'commit')} before the base: no proof"
        return PastProof(is_regression=False, text=text)
    if failed:
        text = f"it fails now and then at the base: {failed} of {amount(len(jobs), 'job')}"
        return PastProof(is_regression=False, text=text)
    chance = highest_chance(len(passed), failures)
    counts = f"{amount(len(passed), 'passed job')}, then {amount(failures, 'failed attempt')}"
    if chance > HIGHEST_CHANCE:
        text = (
            f"{counts} may be an accident, with a probability of up to {percent(chance)}; "
            f"{percent(HIGHEST_CHANCE)} is asked for"
        )
        return PastProof(is_regression=False, text=text)
    newest = max((job for job in passed if not job.distance), key=lambda job: job.at)
    text = (
        f"it passed at the base {_place(newest)}; {counts}, which no constant rate of failure makes "
        f"likelier than {percent(chance)} if attempts are independent"
    )
    return PastProof(is_regression=True, text=text)


def highest_chance(passes: int, failures: int) -> float:
    """The largest probability of so many passes and then so many failures, over all rates of failure.

    It lies at the rate failures / (passes + failures), the estimate of largest likelihood of a
    Bernoulli sequence. 0 ** 0 is 1.
    """
    rate = failures / (passes + failures)
    return float(rate**failures * (1 - rate) ** passes)


def _all(count: int) -> str:
    return "its only job" if count == 1 else f"all {count} jobs"


def _place(job: PastJob) -> str:
    build = f", build {job.build}" if job.build is not None else ""
    return f"{job.commit[:12]} ({job.at[:16].replace('T', ' ')}{build})"
