# SPDX-License-Identifier: Apache-2.0
"""Reads the logs of a whole group: the cause of one service's failure may stand in another's."""

from collections.abc import Iterable

from msgspec import structs

from ci_doctor.diagnosis.log_end import cause_among
from ci_doctor.model.cause import for_record
from ci_doctor.model.service import FailureKind, ServiceFailure
from ci_doctor.services.instance import Instance


def with_cause_elsewhere(failure: ServiceFailure, group: Iterable[Instance]) -> ServiceFailure:
    """`failure`, with the cause that another log of its group names, if one does.

    The failure stays that of its service, because the machine is certain of it: the other log is
    evidence. A failure outside the change stays as it is: its cause is certain enough.
    """
    paths = [instance.service.log for instance in group]
    if failure.kind is FailureKind.OUTSIDE or len(paths) < 2:
        return failure
    cause = cause_among(paths)
    if cause is None or cause.place.file == failure.log:
        return failure
    return structs.replace(failure, elsewhere=for_record(cause))
