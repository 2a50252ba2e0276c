# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: sets a job's variables with the Buildkite agent, for the later phases too."""

from collections.abc import Mapping

from ci_doctor.environment import rules
from ci_doctor.model.finding import Finding


def set_on_agent(variables: Mapping[str, str], environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """Write `variables` to the job's environment, if this is a job whose agent can do that.

    A failure is a note, because the step evaluates the exports too.
    """
    if "BUILDKITE_AGENT_JOB_API_SOCKET" not in environ:
        return ()
    from ci_doctor.buildkite.agent import Agent

    agent = Agent.find(environ)
    result = agent.set_environment(variables) if agent else None
    if result is None or result.ok:
        return ()
    return (rules.AGENT.finding(f"buildkite-agent env set: {result.message}"),)
