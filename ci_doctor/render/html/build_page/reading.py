# SPDX-License-Identifier: Apache-2.0
"""Pure. The facts of a report -> those of a build, each part by itself."""

from collections.abc import Mapping
from typing import Any

from ci_doctor.model.facts.build import BuildFacts, CauseFacts, StepFacts
from ci_doctor.render.html.facts import part

_Texts = tuple[str, ...]


def build_facts(facts: Mapping[str, Any]) -> BuildFacts | None:
    """`facts` as those of a build; None if no step can be read.

    Any other part of an unknown form is left out, so that it does not take the page away.
    """
    steps = part(facts, "build_steps", tuple[StepFacts, ...])
    if not steps:
        return None
    return BuildFacts(
        pipeline=part(facts, "pipeline", str),
        build=part(facts, "build", int),
        build_url=part(facts, "build_url", str),
        commit=part(facts, "commit", str),
        branch=part(facts, "branch", str),
        began_at=part(facts, "began_at", str),
        ended_at=part(facts, "ended_at", str),
        build_steps=steps,
        causes=part(facts, "causes", tuple[CauseFacts, ...]) or (),
        cause_rule=part(facts, "cause_rule", str) or "",
        missing=part(facts, "missing", _Texts) or (),
        duplicates=part(facts, "duplicates", _Texts) or (),
        knows_queue=part(facts, "knows_queue", bool) or False,
    )
