# SPDX-License-Identifier: Apache-2.0
"""A task that fails until its third attempt."""

from pathlib import Path

import luigi


class Flaky(luigi.Task):
    retry_count = 5

    def output(self) -> luigi.LocalTarget:
        return luigi.LocalTarget("done")

    def run(self) -> None:
        attempts = Path("attempts")
        number = len(attempts.read_text()) if attempts.exists() else 0
        attempts.write_text("x" * (number + 1))
        if number < 2:
            raise OSError(f"attempt {number + 1}: No space left on device")
        Path("done").write_text("")


class All(luigi.WrapperTask):
    def requires(self) -> luigi.Task:
        return Flaky()
