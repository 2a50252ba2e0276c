# SPDX-License-Identifier: Apache-2.0
"""Reads site directories: rules by name, and whether they are for what an interpreter has installed."""

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from ci_doctor.errors import UsageError
from ci_doctor.machine.interpreters import UnknownInterpreterError, interpreter_of
from ci_doctor.machine.packages import find_package
from ci_doctor.model.facts.preload import PresetFit, PresetState
from ci_doctor.model.finding import Evidence, Finding, Rule, Severity
from ci_doctor.model.words import did_you_mean
from ci_doctor.preload.interpreter import Target
from ci_doctor.preload.preload_rule import EXAMPLE, FORM, PreloadRule, merge, parse_rule


class Preset(Struct, frozen=True, kw_only=True):
    """A rule in `parse_rule` form for `versions` (PEP 440) of `distribution`, by `source`."""

    rule: str
    distribution: str
    versions: str
    source: str


# vLLM imports transformers in a background thread while the main thread needs it too. The trigger
# is the module that starts the thread and not `vllm`, whose import sets variables that must be set
# before torch is imported. Nightlies and builds from source alone: 0.19.1 and 0.20.0 to 0.33.0 start
# no thread there.
PRESETS: Final = {
    "vllm": Preset(
        rule="vllm.entrypoints.cli.main=transformers:GenerationConfig,PretrainedConfig",
        distribution="vllm",
        versions=">=0.19.2rc1.dev15,<0.19.2rc1.dev134",
        source=(
            "vllm-project/vllm#40331 added the thread and #40438 reverted it on 2026-04-21; "
            "read in the wheels of 0.19.1, 0.20.0 and 0.33.0, where it is absent"
        ),
    )
}

PRESET_DOES_NOT_HOLD: Final = Rule(
    id="preload/preset-does-not-hold",
    severity=Severity.WARNING,
    meaning=(
        "The preset is for other versions of the package than the installed one: there is no race "
        "that its shim would settle. No shim is installed for it."
    ),
    remedy=(
        "Leave the preset out. `ci-doctor import-race -- CMD` finds the races of this version; "
        "`--force` installs the shim nevertheless."
    ),
)
PRESET_UNKNOWN_VERSION: Final = Rule(
    id="preload/preset-unknown-version",
    severity=Severity.NOTE,
    meaning=(
        "The installed version says nothing (a build without tags), so that nobody knows whether "
        "the preset is for it. The shim is installed: it does no harm."
    ),
    remedy="`ci-doctor import-race -- CMD` tells whether the race is in this version.",
)
RULES: Final = (PRESET_DOES_NOT_HOLD, PRESET_UNKNOWN_VERSION)


def split_texts(texts: Iterable[str]) -> tuple[tuple[PreloadRule, ...], tuple[str, ...]]:
    """The rules that are written out (with a `=`), united by trigger, and the names of presets.

    Raises UsageError for a rule that cannot be read and for a name without a preset.
    """
    explicit: list[PreloadRule] = []
    names: dict[str, None] = {}
    for text in texts:
        name = text.strip()
        if "=" in text:
            explicit.append(parse_rule(text))
        elif name in PRESETS:
            names[name] = None
        else:
            presets = did_you_mean(name, PRESETS) or ""
            presets += "" if presets.endswith("?") else "."
            raise UsageError(
                f"preload rule {text!r}: there is no preset of that name, "
                "and it has no `=` between trigger and module",
                hint=f"{presets} A rule is written {FORM}, for example {EXAMPLE}",
            )
    return merge((), explicit), tuple(names)


def rules_of(texts: Iterable[str]) -> tuple[PreloadRule, ...]:
    """The rules of `texts`, presets too, united by trigger. Raises as `split_texts`."""
    rules: list[PreloadRule] = []
    for text in texts:
        explicit, names = split_texts([text])
        rules += (*explicit, *(parse_rule(PRESETS[name].rule) for name in names))
    return merge((), rules)


def preset_states(target: Target, names: Sequence[str]) -> tuple[PresetState, ...]:
    """How each preset fits what is installed for `target`."""
    directories: Sequence[Path] = (target.site_dir,)
    # A Python that no file names, such as a script of pyenv's: its own directory decides.
    with contextlib.suppress(UnknownInterpreterError):
        directories = interpreter_of([str(target.python)], os.environ, Path.cwd()).directories
    states = []
    for name in names:
        package = find_package(PRESETS[name].distribution, directories)
        version = None if package is None else package.version
        states.append(PresetState(name=name, fit=fit_of(PRESETS[name], version), version=version))
    return tuple(states)


def fit_of(preset: Preset, version: str | None) -> PresetFit:
    """Whether the preset is for that version (PEP 440); None: not installed."""
    if version is None:
        return PresetFit.ABSENT
    try:
        parsed = Version(version)
    except InvalidVersion:
        return PresetFit.UNKNOWN
    # What setuptools-scm says of a checkout without tags.
    is_untagged = parsed.is_devrelease and parsed.release[:2] in {(0,), (0, 0), (0, 1)}
    if is_untagged or not any(parsed.release):
        return PresetFit.UNKNOWN
    holds = SpecifierSet(preset.versions).contains(parsed, prereleases=True)
    return PresetFit.HOLDS if holds else PresetFit.DOES_NOT_HOLD


def describe_fit(state: PresetState) -> str:
    """Such as `holds for vllm 0.33.0`."""
    distribution = PRESETS[state.name].distribution
    if state.fit is PresetFit.ABSENT:
        return f"package absent: {distribution} is not installed"
    if state.fit is PresetFit.UNKNOWN:
        return f"unknown version: {distribution} {state.version!r}"
    return f"{state.fit} for {distribution} {state.version}"


def findings_about(
    target: Target, states: Sequence[PresetState], *, force: bool
) -> tuple[Finding, ...]:
    """One for each preset that does not hold, or may not."""
    findings = []
    for state in states:
        preset = PRESETS[state.name]
        evidence = (Evidence(excerpt=f"{preset.versions}: {preset.source}"),)
        fit = describe_fit(state)
        if state.fit is PresetFit.DOES_NOT_HOLD:
            done = "its shim goes in by force" if force else "no shim is installed for it"
            findings.append(
                PRESET_DOES_NOT_HOLD.finding(
                    f"the preset {state.name} {fit} in {target.python}; {done}", evidence=evidence
                )
            )
        elif state.fit is PresetFit.UNKNOWN:
            findings.append(
                PRESET_UNKNOWN_VERSION.finding(
                    f"whether the preset {state.name} holds is not known: {fit}", evidence=evidence
                )
            )
    return tuple(findings)
