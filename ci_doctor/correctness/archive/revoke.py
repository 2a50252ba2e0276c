# SPDX-License-Identifier: Apache-2.0
"""Acts on an archive: revokes the starts of a commit or of a build."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ci_doctor.correctness.archive.archive_store import archive_store
from ci_doctor.correctness.archive.build_words import build_of
from ci_doctor.correctness.archive.outcomes import revoke_outcome
from ci_doctor.correctness.archive.revocation import Revocation
from ci_doctor.correctness.archive.revocation_target import revocation_target
from ci_doctor.correctness.archive.revocations import marker, read_revocations
from ci_doctor.correctness.archive.survey import survey
from ci_doctor.errors import UsageError
from ci_doctor.model.outcome import Outcome
from ci_doctor.store.errors import StoreError
from ci_doctor.system import clock


def revoke(
    place: Path | str, word: str, reason: str | None, environ: Mapping[str, str] = os.environ
) -> Outcome:
    """Take all starts of the commit or build that `word` names out of use, for good.

    No start is changed or removed: a marker beside the identities names what is revoked. What was
    revoked before stays as it was, with its reason. Raises UsageError if `word` names nothing or
    several, or if the marker cannot be written.
    """
    survey_of_archive = survey(place)
    target = revocation_target(word, survey_of_archive.starts)
    name = marker(Path(), target.key).name
    path = f"{place}/{name}"
    before = survey_of_archive.revocations.by_key.get(target.key)
    if before is not None:
        return revoke_outcome(str(place), target, path, before, was_revoked=True)
    made = Revocation(
        commit=target.commit,
        build=target.build,
        reason=reason,
        revoked_at=clock.timestamp(),
        revoked_by=f"{build_of(environ)} on {os.uname().nodename}",
        starts=tuple(start.file for start in target.starts),
    )
    content = msgspec.json.format(msgspec.json.encode(made)) + b"\n"
    try:
        # Of two at the same moment the first one stands.
        created = archive_store(place).create(name, content)
        stands = made if created else read_revocations(place).by_key.get(target.key, made)
    except StoreError as error:
        what = f"cannot write {path}: "
        raise UsageError(what + error.message.removeprefix(what), hint=error.hint) from error
    return revoke_outcome(str(place), target, path, stands, was_revoked=not created)
