# SPDX-License-Identifier: Apache-2.0
"""What the arms themselves do not have in common, if nobody asked for it. Pure."""

from collections.abc import Iterator, Mapping

from ci_doctor.correctness import rules
from ci_doctor.correctness.settings import Arm, ArmPlan
from ci_doctor.correctness.verdict.decision import Decision
from ci_doctor.model.facts.correctness import IdentityFacts
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.model.verdict import Verdict

_MOST_FACTS = 4
# Under these verdicts a difference between the arms themselves may be the cause.
_MAY_BE_THE_ARMS = {Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.NONDETERMINISTIC}


def arm_findings(
    decision: Decision, identity: IdentityFacts, arms: Mapping[Arm, ArmPlan]
) -> Iterator[Finding]:
    """The differences between the arms that may explain different answers.

    What the configuration itself gives to one arm is meant to differ: its command line, the files
    that only one command names, its variables, its reset. The facts of the report hold these too.
    """
    if decision.verdict not in _MAY_BE_THE_ARMS:
        return
    lines = []
    names = []
    for fact, (left, right) in identity.arms.items():
        if _is_meant(fact, left, right, arms):
            continue
        baseline = left or "absent"
        candidate = right or "absent"
        lines.append(f"{fact}: {baseline} -> {candidate}")
        names.append(fact)
    if not names:
        return
    words = ", ".join(names[:_MOST_FACTS])
    if len(names) > _MOST_FACTS:
        words = f"{words} and more"
    rule = rules.DIFFERENT_ARMS
    yield rule.finding(
        f"the arms differ in {words}",
        evidence=(Evidence(excerpt="\n".join(lines)),),
        remedy=rule.remedy,
    )


def _is_meant(fact: str, left: str | None, right: str | None, arms: Mapping[Arm, ArmPlan]) -> bool:
    """Whether the configuration makes this difference."""
    # With several services, a fact has the name of its own in front: `kv: argv`.
    name = fact.rpartition(": ")[2]
    if name == "argv" or name.startswith("schedule."):
        return True
    # A file that both commands name differs in its content, and that is not in the configuration.
    if name.startswith("file "):
        return left is None or right is None
    return name.startswith("env.") and name.removeprefix("env.") in _own_variables(arms)


def _own_variables(arms: Mapping[Arm, ArmPlan]) -> set[str]:
    """The variables that the configuration sets for the services of an arm."""
    variables: set[str] = set()
    for planned in arms.values():
        for name in planned.names:
            variables.update(planned.specs[name].env)
    return variables
