# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of `ci-doctor build upload`."""

from ci_doctor.model.facts import Facts


class BuildUploadFacts(Facts, frozen=True, kw_only=True):
    """What Test Engine took.

    queued: results that it accepted. skipped: those that it left out, in its own count. address: of
    the run's page. problems: sentences on what was not uploaded.
    """

    queued: int = 0
    skipped: int = 0
    address: str | None = None
    problems: tuple[str, ...] = ()
