# SPDX-License-Identifier: Apache-2.0
"""Pure. Whether a preset is for an installed version."""

from enum import StrEnum

from msgspec import Struct
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from ci_doctor.preload.presets import PRESETS, Preset


class PresetFit(StrEnum):
    """Whether a preset is for an installed version."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    ABSENT = "package absent"
    UNKNOWN = "unknown version"


class PresetUse(Struct, frozen=True, kw_only=True):
    """The presets that are asked for; `force`: also where they do not hold."""

    names: tuple[str, ...] = ()
    force: bool = False


class PresetState(Struct, frozen=True, kw_only=True):
    """A preset and one interpreter; `version` is as installed, None if it is not."""

    name: str
    fit: PresetFit
    version: str | None

    @property
    def sentence(self) -> str:
        """Such as `holds for vllm 0.33.0`."""
        distribution = PRESETS[self.name].distribution
        match self.fit:
            case PresetFit.HOLDS:
                return f"holds for {distribution} {self.version}"
            case PresetFit.DOES_NOT_HOLD:
                return f"does not hold for {distribution} {self.version}"
            case PresetFit.ABSENT:
                return f"package absent: {distribution} is not installed"
            case PresetFit.UNKNOWN:
                return f"unknown version: {distribution} {self.version!r}"


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
