# SPDX-License-Identifier: Apache-2.0
"""The import hazards of all processes of a run. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from ci_doctor.imports.analyse.find_hazards import find_hazards
from ci_doctor.imports.analyse.hazard import Hazard, HazardKind
from ci_doctor.imports.record.recorded import RecordedRun


class RunHazards(Struct, frozen=True, kw_only=True):
    """The hazards of all processes; `spared` are those that an immune interpreter does not have.

    is_whole: False if the comparison of a process stopped at a bound.
    """

    hazards: tuple[Hazard, ...]
    spared: tuple[Hazard, ...]
    is_whole: bool


def find_in_all(recorded: RecordedRun, interpreters: Mapping[str, bool | None]) -> RunHazards:
    """The hazards of all processes together; `interpreters` as `check_interpreters` returns it."""
    hazards: list[Hazard] = []
    spared: list[Hazard] = []
    is_whole = True
    for process in recorded.processes:
        # Not None: an interpreter that could not be checked may be exposed.
        is_immune = interpreters.get(process.executable) is False
        in_process = find_hazards(process)
        is_whole = is_whole and in_process.is_whole
        for hazard in in_process.hazards:
            if is_immune and hazard.kind is HazardKind.REPLACED:
                spared.append(hazard)
            else:
                hazards.append(hazard)
    return RunHazards(hazards=tuple(hazards), spared=tuple(spared), is_whole=is_whole)
