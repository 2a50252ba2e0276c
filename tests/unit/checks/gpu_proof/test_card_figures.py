# SPDX-License-Identifier: Apache-2.0
"""The names that drivers print, and no guesses."""

import pytest

from ci_doctor.checks.gpu_proof.card_figures import CARDS, card_figure


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        ("NVIDIA H100 80GB HBM3", 3350),
        ("NVIDIA H100 PCIe", 2000),
        ("NVIDIA A100-SXM4-80GB", 2039),
        ("NVIDIA A100 80GB PCIe", 1935),
        ("Tesla T4", 320),
        ("NVIDIA L40S", 864),
    ],
)
def test_cards_are_known_by_the_name_that_the_driver_prints(name: str, gigabytes: int) -> None:
    figure = card_figure(name)

    assert figure is not None
    assert figure.bandwidth == gigabytes * 10**9


@pytest.mark.parametrize(
    "name", ["", "NVIDIA", "NVIDIA H100", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "GRID A100-10C"]
)
def test_other_names_are_not_guessed(name: str) -> None:
    assert card_figure(name) is None


def test_each_figure_names_its_source() -> None:
    assert [name for name, card in CARDS.items() if not card.source] == []
