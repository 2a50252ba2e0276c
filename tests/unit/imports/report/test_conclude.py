# SPDX-License-Identifier: Apache-2.0
"""The verdict of an investigation."""

import msgspec
import pytest

from ci_doctor.imports.analyse.hazard import Closeness, HazardKind
from ci_doctor.imports.investigation import Investigation
from ci_doctor.imports.report.conclude import conclude
from ci_doctor.model.verdict import Verdict
from tests.unit.imports.hazards_of import (
    FIRED,
    MET,
    NOT_MET,
    RUN,
    a_hazard,
    a_held_run,
    a_process,
    a_run,
    an_investigation,
)

ENDED_OTHERWISE = msgspec.structs.replace(a_held_run(NOT_MET, exit_code=1), ended_as_recorded=False)
MET_AND_ENDED_OTHERWISE = msgspec.structs.replace(
    a_held_run(MET, exit_code=1), ended_as_recorded=False
)


@pytest.mark.parametrize(
    ("what", "verdict", "said"),
    [
        (an_investigation(), Verdict.PASS, "no import race in 1 process"),
        (
            an_investigation(FIRED),
            Verdict.FAILED,
            "1 import race can happen here; 1 fired in the recorded run",
        ),
        (
            an_investigation(FIRED, recorded=a_run(a_process(), exit_code=1)),
            Verdict.FAILED,
            "which then ended with exit code 1",
        ),
        (
            an_investigation(FIRED, a_hazard(HazardKind.FAILED, "x")),
            Verdict.FAILED,
            "`--confirm` settles the others",
        ),
        (an_investigation(a_hazard()), Verdict.INCONCLUSIVE, "`--confirm` settles it"),
        (
            an_investigation(a_hazard(), confirmed=(((RUN,), RUN),)),
            Verdict.FAILED,
            "1 fired once the right import was delayed",
        ),
        (
            an_investigation(a_hazard(), confirmed=(((RUN,), None),)),
            Verdict.PASS,
            "did not make it fire",
        ),
        (
            an_investigation(a_hazard(), confirmed=(((a_held_run(),), None),)),
            Verdict.INCONCLUSIVE,
            "could not decide it",
        ),
        (an_investigation(a_hazard(), confirmed=()), Verdict.INCONCLUSIVE, "could not decide it"),
        (
            an_investigation(a_hazard(), confirmed=(((ENDED_OTHERWISE,), None),)),
            Verdict.INCONCLUSIVE,
            "could not decide it",
        ),
        (
            an_investigation(a_hazard(), confirmed=(((MET_AND_ENDED_OTHERWISE,), None),)),
            Verdict.PASS,
            "did not make it fire",
        ),
        (
            an_investigation(a_hazard(closeness=Closeness.HANDED_OUT), confirmed=(((RUN,), None),)),
            Verdict.PASS,
            "did no harm in 1 run with a delay",
        ),
        (
            an_investigation(recorded=a_run(a_process(unjudged=("greenlets",)))),
            Verdict.VOID,
            "several greenlets import in one thread",
        ),
        (
            an_investigation(FIRED, recorded=a_run(a_process(unjudged=("fibers",)))),
            Verdict.FAILED,
            "1 fired in the recorded run",
        ),
        (an_investigation(is_whole=False), Verdict.INCONCLUSIVE, "more than can be compared"),
        (
            an_investigation(a_hazard(), confirmed=(((RUN,), None),), is_whole=False),
            Verdict.INCONCLUSIVE,
            "than can be compared",
        ),
        (
            an_investigation(FIRED, is_whole=False),
            Verdict.FAILED,
            "1 fired in the recorded run",
        ),
        (an_investigation(recorded=a_run()), Verdict.VOID, "nothing was recorded"),
        (
            an_investigation(recorded=a_run(a_process(), unreadable=("1.trace: damaged",))),
            Verdict.VOID,
            "1 trace cannot be read",
        ),
        (
            an_investigation(isolated="-I (ignores PYTHONPATH)"),
            Verdict.VOID,
            "-I (ignores PYTHONPATH)",
        ),
        (
            an_investigation(recorded=a_run(a_process(), exit_code=3)),
            Verdict.INCONCLUSIVE,
            "exit code 3",
        ),
        (
            an_investigation(recorded=a_run(a_process(), exit_code=None, signal="SIGSEGV")),
            Verdict.INCONCLUSIVE,
            "SIGSEGV",
        ),
        (
            an_investigation(
                recorded=a_run(a_process(), exit_code=None, signal="SIGINT", timed_out=True)
            ),
            Verdict.PASS,
            "no import",
        ),
        (an_investigation(spared=(a_hazard(),)), Verdict.PASS, "immune"),
    ],
)
def test_the_verdict_is_never_better_than_what_is_known(
    what: Investigation, verdict: Verdict, said: str
) -> None:
    conclusion = conclude(what)

    assert conclusion.verdict is verdict
    assert said in conclusion.summary
