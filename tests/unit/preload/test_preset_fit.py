# SPDX-License-Identifier: Apache-2.0
"""Which versions a preset is for."""

import pytest
from packaging.specifiers import SpecifierSet

from ci_doctor.preload.preset_fit import PresetFit, PresetState, fit_of
from ci_doctor.preload.presets import PRESETS


@pytest.mark.parametrize(
    ("version", "fit"),
    [
        ("0.33.0", PresetFit.DOES_NOT_HOLD),
        ("0.33.0+cu130", PresetFit.DOES_NOT_HOLD),
        ("0.20.0", PresetFit.DOES_NOT_HOLD),
        ("0.19.1", PresetFit.DOES_NOT_HOLD),
        ("0.19.2rc1.dev14+gf150107ef.d20260419", PresetFit.DOES_NOT_HOLD),
        ("0.19.2rc1.dev40+g1234567", PresetFit.HOLDS),
        ("0.19.2rc1.dev40+g1234567.cu130", PresetFit.HOLDS),
        ("0.1.dev1+g1234567", PresetFit.UNKNOWN),
        ("0.0.0", PresetFit.UNKNOWN),
        ("nightly", PresetFit.UNKNOWN),
        ("", PresetFit.UNKNOWN),
        (None, PresetFit.ABSENT),
    ],
)
def test_the_vllm_preset_is_for_the_nightlies_with_the_thread_alone(
    version: str | None, fit: PresetFit
) -> None:
    assert fit_of(PRESETS["vllm"], version) is fit


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_names_its_package_versions_and_source(name: str) -> None:
    preset = PRESETS[name]
    assert preset.distribution
    assert list(SpecifierSet(preset.versions))
    assert preset.source


@pytest.mark.parametrize("fit", PresetFit)
def test_every_state_is_a_sentence(fit: PresetFit) -> None:
    state = PresetState(name="vllm", fit=fit, version="1")
    assert "vllm" in state.sentence
