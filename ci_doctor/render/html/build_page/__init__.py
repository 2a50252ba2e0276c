# SPDX-License-Identifier: Apache-2.0
"""Pure. The page of a build: what to do, what caused it, what it cost, and every attempt on a time axis."""

from msgspec.structs import replace

from ci_doctor.model.about import About
from ci_doctor.model.facts.build import BuildFacts
from ci_doctor.model.finding import Severity
from ci_doctor.model.report import Report
from ci_doctor.render.build_words import first_action, remedies
from ci_doctor.render.headline import worst_first
from ci_doctor.render.html.build_page.axis import build_axis
from ci_doctor.render.html.build_page.causes import page_causes
from ci_doctor.render.html.build_page.counts import figures, shares
from ci_doctor.render.html.build_page.reading import build_facts
from ci_doctor.render.html.build_page.retries import page_retries
from ci_doctor.render.html.build_page.steps import page_steps
from ci_doctor.render.html.templating import page, sheet
from ci_doctor.render.links import links
from ci_doctor.render.safe_text import cleaned

STEPS_FACT = "build_steps"
_MOST_REMEDIES = 6


def render(report: Report) -> str | None:
    """`report` as the page of its build; None if its facts are those of no build."""
    if STEPS_FACT not in report.facts:
        return None
    shown = cleaned(report)
    facts = build_facts(shown.facts)
    if facts is None:
        return None
    axis = build_axis(facts)
    causes = page_causes(facts)
    # Each cause is a row of the page.
    findings = [each for each in worst_first(shown) if each.rule != facts.cause_rule]
    values = {
        "subject": _subject(facts, shown),
        # Above everything else: beside them nothing is certain.
        "gaps": [each for each in findings if each.severity is Severity.ERROR],
        "findings": [each for each in findings if each.severity is not Severity.ERROR],
        "links": links(_about(facts, shown.about)),
        "first": first_action(facts),
        "remedies": remedies(facts, _MOST_REMEDIES),
        "facts": facts,
        "figures": figures(facts, axis),
        "shares": shares(facts),
        "causes": causes,
        "retries": page_retries(facts),
        "steps": page_steps(facts, axis, causes.numbers),
        "axis": axis,
    }
    grid = axis.grid if axis is not None else "100%"
    style = sheet("style.css.j2") + sheet("build.css.j2", grid=grid)
    script = sheet("build.js.j2")
    return page("build.html.j2", shown, style=style, script=script, values=values)


def _subject(facts: BuildFacts, report: Report) -> str:
    """`serving #812`; the command if no build is known."""
    if facts.build is None:
        return report.command
    pipeline = facts.pipeline or "build"
    return f"{pipeline} #{facts.build}"


def _about(facts: BuildFacts, about: About) -> About:
    """What the page is about: the build that was merged, which need not be the one that merged."""
    repository = about.repository
    if facts.commit is not None and facts.commit != about.commit:
        repository = None
    return replace(
        about,
        pipeline=facts.pipeline,
        build=facts.build,
        build_url=facts.build_url,
        commit=facts.commit,
        branch=facts.branch,
        repository=repository,
    )
