# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.drift.container import container_image


def test_podman_names_the_image(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".containerenv").write_text(
        'engine="podman-5"\nimage="registry.example/ci:7"\nimageid="0123456789abcdef"\n'
    )

    assert container_image({}, tmp_path).facts == {"image": "registry.example/ci:7 (0123456789ab)"}


@pytest.mark.parametrize("name", [".dockerenv", "run/.containerenv"])
def test_a_container_that_does_not_name_its_image_is_unknown(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()

    assert "image" in container_image({}, tmp_path).unknown


def test_a_pod_does_not_know_its_image(tmp_path: Path) -> None:
    assert "image" in container_image({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path).unknown


def test_a_machine_is_made_of_no_image(tmp_path: Path) -> None:
    assert container_image({}, tmp_path).facts == {"image": "none"}
