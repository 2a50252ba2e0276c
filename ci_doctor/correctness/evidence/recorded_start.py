# SPDX-License-Identifier: Apache-2.0
"""A finished start of an earlier process, rebuilt from its record and its samples. Pure."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from ci_doctor.correctness.evidence.files import SAMPLES
from ci_doctor.correctness.evidence.samples import NO_PASS, Sample, is_valid
from ci_doctor.correctness.evidence.start_record import StartRecord
from ci_doctor.correctness.results import StartResult
from ci_doctor.correctness.tally import Tally
from ci_doctor.load.canonical import check_output
from ci_doctor.load.choices import NotAnAnswerError
from ci_doctor.load.requests import Request


def _is_answer(sample: Sample) -> bool:
    """Whether a sample's output, if there is one, has the shape of an answer."""
    if sample.output is None:
        return True
    try:
        check_output(sample.output)
    except NotAnAnswerError:
        return False
    return True


class RecordedStart:
    """A finished start and what its samples hold."""

    def __init__(
        self,
        record: StartRecord,
        ids: Sequence[str],
        passes: int,
        requests: Sequence[Request] = (),
    ) -> None:
        self.record = record
        self.tally = Tally(
            arm=record.arm, number=record.number, ids=ids, passes=passes, requests=requests
        )
        self.tally.proof_missing = record.proof_missing
        # What its samples must still hold: request and pass.
        self._open: set[tuple[str, int]] = set()
        for identity in ids:
            self._open.update((identity, number) for number in range(1, passes + 1))
        self._invalid: str | None = None

    def add(self, sample: Sample) -> None:
        """One more of its samples."""
        # The record holds what came of the control.
        if sample.pass_ == NO_PASS:
            return
        key = (sample.id, sample.pass_)
        answer = f"the answer to {sample.id} in pass {sample.pass_}"
        if key not in self._open:
            self._invalid = f"{answer} stands twice, or was never requested"
        elif not is_valid(sample) or not _is_answer(sample):
            self._invalid = f"{answer} is not what it was"
            # It may have any shape, and the start is made again.
            return
        self._open.discard(key)
        self.tally.add(sample)

    @property
    def _claimed(self) -> bool:
        """Whether only its own log reports an outside cause. Resuming must not erase that."""
        failure = self.record.failure
        return self.record.outside and failure is not None and failure.log is not None

    def distrust(self) -> str | None:
        """Why the start must be made again; None if it can be kept."""
        record = self.record
        if record.outside and not self._claimed:
            return "it failed for a reason outside the change"
        if self._invalid:
            return self._invalid
        # A start that failed has no answers to the rest.
        is_incomplete = bool(self._open) and not record.failed
        count = self.tally.count
        # The record counts what was written: fewer lines mean that the disk lost some.
        if count != record.samples or is_incomplete:
            return f"only {count} of its answers are in {SAMPLES}"
        return None

    def result(self, directory: Path) -> StartResult:
        """The result as it was when the start was made; logs are below `directory`."""
        record = self.record
        failure = record.failure
        if failure is not None and failure.log is not None:
            failure = structs.replace(failure, log=str(directory / failure.log))
        start = self.tally.start(
            failed=record.failed,
            outside=record.outside,
            claimed=self._claimed,
            control=record.control,
            devices=record.devices,
        )
        return StartResult(
            start=start,
            failure=failure,
            duration_s=record.duration_s,
            logs=tuple(directory / log for log in record.logs),
            digests=self.tally.digests,
            errors=self.tally.errors,
            killed=record.killed,
            not_released=record.not_released,
            left_behind=record.left_behind,
            throttled=len(self.tally.throttled),
            facts=record.facts,
            cached=record.cached,
            proof=record.proof,
            shared=record.shared,
        )
