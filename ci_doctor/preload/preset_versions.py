# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: whether presets hold for the versions that an interpreter has installed."""

import os
from collections.abc import Sequence

import msgspec

from ci_doctor.errors import InfraError
from ci_doctor.model.finding import Evidence, Finding
from ci_doctor.preload import rules
from ci_doctor.preload.interpreter import ask, clean_environment
from ci_doctor.preload.preload_rule import PreloadRule
from ci_doctor.preload.preset_fit import PresetFit, PresetState, fit_of
from ci_doctor.preload.presets import PRESETS, rules_of
from ci_doctor.preload.target import Target

QUERY_TIMEOUT_S = 60.0
# Prints the version of each distribution that is named, or null, as the last line.
_QUERY = """
import json, sys
from importlib import metadata
sys.path[:] = [entry for entry in sys.path if entry]
versions = []
for name in sys.argv[1:]:
    try:
        versions.append(metadata.version(name) or "")
    except metadata.PackageNotFoundError:
        versions.append(None)
print()
print(json.dumps(versions))
"""


def preset_states(target: Target, names: Sequence[str]) -> tuple[PresetState, ...]:
    """How each preset fits `target`. Raises InfraError if the interpreter does not answer."""
    if not names:
        return ()
    distributions = [PRESETS[name].distribution for name in names]
    environment = clean_environment(os.environ, keep=("PYTHONPATH",)) | {"CI_DOCTOR_PRELOAD": "0"}
    words = ("-B", "-c", _QUERY, *distributions)
    answer = ask(target.python, *words, timeout_s=QUERY_TIMEOUT_S, environment=environment)
    try:
        versions = msgspec.json.decode(answer.last_line, type=list[str | None])
    except (msgspec.DecodeError, IndexError):
        raise InfraError(
            f"{target.python} does not tell what it has installed: {answer.last_error_line}",
            hint=f"run `{target.python} -m pip list`",
        ) from None
    states = []
    for name, version in zip(names, versions, strict=True):
        states.append(PresetState(name=name, fit=fit_of(PRESETS[name], version), version=version))
    return tuple(states)


def rules_for(
    states: Sequence[PresetState], explicit: Sequence[PreloadRule], *, force: bool
) -> tuple[PreloadRule, ...]:
    """The rules for an interpreter: those written out, and those of presets that may hold."""
    wanted = [*explicit]
    for state in states:
        if force or state.fit is not PresetFit.DOES_NOT_HOLD:
            wanted += rules_of([state.name])
    return tuple(wanted)


def findings_about(
    target: Target, states: Sequence[PresetState], *, force: bool
) -> tuple[Finding, ...]:
    """One for each preset that does not hold, or may not."""
    findings = []
    for state in states:
        preset = PRESETS[state.name]
        evidence = (Evidence(excerpt=f"{preset.versions}: {preset.source}"),)
        if state.fit is PresetFit.DOES_NOT_HOLD:
            done = "its shim goes in by force" if force else "no shim is installed for it"
            summary = f"the preset {state.name} {state.sentence} in {target.python}; {done}"
            findings.append(rules.PRESET_DOES_NOT_HOLD.finding(summary, evidence=evidence))
        elif state.fit is PresetFit.UNKNOWN:
            summary = f"whether the preset {state.name} holds is not known: {state.sentence}"
            findings.append(rules.PRESET_UNKNOWN_VERSION.finding(summary, evidence=evidence))
    return tuple(findings)
