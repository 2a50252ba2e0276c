# SPDX-License-Identifier: Apache-2.0
"""Acts on the build: whether `setup-env` ran for this job, and its variables for the later phases.

The shell that evaluates the exports is not ours. If Python dies before our code runs, nothing of
ours can stop that shell; the job's next ci-doctor command can see it.
"""

import json
from collections.abc import Mapping

from ci_doctor.buildkite.plugin import plugin_prepares
from ci_doctor.config.decoding import decode_section, variable_name
from ci_doctor.config.loading import Config
from ci_doctor.environment import exports, rules
from ci_doctor.environment.settings import IfMissing, SetupEnvSettings
from ci_doctor.errors import PreparationError
from ci_doctor.model.finding import Finding, Severity, ShellCommand
from ci_doctor.model.words import EVALUATION, PREPARED

SECTION = "setup-env"
_JOB = "BUILDKITE_JOB_ID"
_NO_JOB = "-"
_SEVERITIES = {IfMissing.WARNING: Severity.WARNING, IfMissing.ERROR: Severity.ERROR}


def prepared_value(config: Config, environ: Mapping[str, str]) -> str:
    """The value of PREPARED: the job, and a digest of the section that was read for it."""
    return f"{environ.get(_JOB) or _NO_JOB}:{_digest(config)}"


def missing_preparation(config: Config, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """What is missing of the preparation that this job expects; nothing if it expects none.

    Raises ConfigError for a wrong section, and PreparationError for a finding of severity error.
    """
    place = _place(config, environ)
    if place is None and PREPARED not in environ:
        return ()
    settings, _ = decode_section(config, SECTION, SetupEnvSettings, environ=environ, flags={})
    severity = _SEVERITIES.get(settings.if_missing)
    if severity is None:
        return ()
    reason = _reason(config, environ) if place else None
    findings = _lost(environ, severity)
    if place and reason:
        summary = f"setup-env did not prepare this job: {place}, but {reason}"
        remedy = ShellCommand(f"# before this command, in the same shell\n{EVALUATION}")
        findings = (rules.NOT_PREPARED.finding(summary, severity=severity, remedy=remedy),)
    for finding in findings:
        if finding.severity is Severity.ERROR:
            raise PreparationError(finding.summary, hint=finding.remedy, findings=findings)
    return findings


def _place(config: Config, environ: Mapping[str, str]) -> str | None:
    """Who expects that `setup-env` ran, in words; None if nobody does."""
    if SECTION in config.tables:
        return f"{config.where(SECTION)} configures it"
    for name in SetupEnvSettings.__struct_fields__:
        variable = variable_name(SECTION, name)
        if environ.get(variable):
            return f"{variable} configures it"
    if plugin_prepares(environ):
        return "the step's ci-doctor plugin was to run it"
    return None


def _reason(config: Config, environ: Mapping[str, str]) -> str | None:
    """Why the preparation of this job is missing; None if it is there."""
    value = environ.get(PREPARED)
    if value is None:
        return f"{PREPARED} is not set"
    job, _, digest = value.partition(":")
    here = environ.get(_JOB)
    # Either is unknown in a container that does not get the agent's variables.
    if here and job not in (_NO_JOB, here):
        return f"{PREPARED} is that of job {job}"
    if SECTION in config.tables and digest != _digest(config):
        return f"it ran with other settings than those of {config.where(SECTION)}"
    return None


def _digest(config: Config) -> str:
    # Not the key that says what to do now: it decides nothing that was exported.
    section = config.tables.get(SECTION, {})
    table = {name: value for name, value in section.items() if name != "if_missing"}
    return exports.digest(json.dumps(table, sort_keys=True, default=str))


def _lost(environ: Mapping[str, str], severity: Severity) -> tuple[Finding, ...]:
    """Exports of this job that its commands do not see any more, or see with another value."""
    gone, changed = exports.lost(environ)
    findings = []
    if gone:
        summary = f"setup-env exported {', '.join(gone)}, and this command does not see it"
        remedy = "do not unset it after setup-env, and pass it on into containers"
        findings.append(rules.LOST_EXPORTS.finding(summary, severity=severity, remedy=remedy))
    if changed:
        summary = f"another value than that of setup-env is set: {', '.join(changed)}"
        findings.append(rules.LOST_EXPORTS.finding(summary, severity=Severity.NOTE))
    return tuple(findings)


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
