# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: publishes the report of a whole build as annotation, artifacts and meta-data.

The annotation needs its page for the link, so the page is uploaded first.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ci_doctor.build.build_metadata import CAUSES_KEY, VERDICT_KEY, causes_json, verdict_word
from ci_doctor.buildkite.agent import Agent, AgentResult
from ci_doctor.buildkite.api_time import ApiTime
from ci_doctor.buildkite.download_plan import PUBLISHED_FOLDER
from ci_doctor.decodable import decodable
from ci_doctor.model.facts.build import BuildFacts
from ci_doctor.model.outcome import Report
from ci_doctor.render import build_annotation, renderer
from ci_doctor.render.headline import tone
from ci_doctor.system.files.own_directory import own_directory
from ci_doctor.system.files.writing import make_directory, write_atomically

CONTEXT = "ci-doctor:build"
# 10 is first on the page: the whole build stands before its steps, which have 6 at most.
_PRIORITY = 8
# For all calls: an upload that hangs leaves time for the annotation.
BUDGET_S = 180.0
_PAGE = f"{PUBLISHED_FOLDER}/report.html"
_FORMS = ("html", "json")


def publish_build(
    report: Report, environ: Mapping[str, str], *, api_time: ApiTime | None = None
) -> list[str]:
    """Publish the report of a build, and return a line for each thing that did not work.

    `report` is that of `build merge`, without secrets. A part that fails, by whatever error, costs
    that part alone: publishing must not fail a build. All calls of the agent take at most BUDGET_S
    seconds, and what `api_time` has left.
    """
    agent = Agent.find(environ, budget_s=BUDGET_S, api_time=api_time)
    if agent is None:
        return ["not a Buildkite job, or no buildkite-agent on PATH: nothing is published"]
    uploaded = _attempt("the page is not uploaded", lambda: _upload(report, agent))
    page = _PAGE if uploaded.ok else None
    results = [
        uploaded,
        _attempt("the annotation is not published", lambda: _annotate(report, agent, page)),
        _attempt(f"{VERDICT_KEY} is not set", lambda: _set_verdict(report, agent)),
        _attempt(f"{CAUSES_KEY} is not set", lambda: _set_causes(report, agent)),
    ]
    return [result.message for result in results if not result.ok]


def _attempt(consequence: str, part: Callable[[], AgentResult]) -> AgentResult:
    try:
        return part()
    except OSError as error:
        return AgentResult(ok=False, message=f"{consequence}: {error}")
    # A bug of ours: the other parts, and the build, do not depend on this one.
    except Exception as error:  # noqa: BLE001
        message = f"{consequence}: {type(error).__name__}: {error}"
        return AgentResult(ok=False, message=message)


def _upload(report: Report, agent: Agent) -> AgentResult:
    """Upload the page and the report itself below one folder."""
    with own_directory("publish") as folder:
        files = [_written(Path(folder), report, form) for form in _FORMS]
        return agent.upload_artifacts(files, Path(folder))


def _annotate(report: Report, agent: Agent, page: str | None) -> AgentResult:
    body = build_annotation.render(report, page=page)
    return agent.annotate(body, style=tone(report), context=CONTEXT, priority=_PRIORITY)


def _set_verdict(report: Report, agent: Agent) -> AgentResult:
    return agent.set_metadata(VERDICT_KEY, verdict_word(report))


def _set_causes(report: Report, agent: Agent) -> AgentResult:
    facts = msgspec.convert(report.facts, decodable(BuildFacts))
    return agent.set_metadata(CAUSES_KEY, causes_json(facts))


def _written(folder: Path, report: Report, form: str) -> Path:
    each = renderer(form)
    path = folder / PUBLISHED_FOLDER / (each.file or form)
    make_directory(path.parent)
    write_atomically(path, each.render(report).encode())
    return path
