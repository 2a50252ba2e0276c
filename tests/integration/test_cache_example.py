"""The example of caches, as its README shows it."""

from pathlib import Path

import pytest

from tests.integration.test_examples import environment, shown_by

pytestmark = [pytest.mark.integration, pytest.mark.nightly]
__all__ = ["environment"]


def test_the_second_job_is_paid_for_and_the_third_one_looks_elsewhere(
    environment: dict[str, str], tmp_path: Path
) -> None:
    shown = shown_by("cache", {**environment, "NO_COLOR": "1"}, tmp_path)

    assert "bytecode paid;" in shown
    assert "bytecode inert" in shown
    assert "another directory" in " ".join(shown.split())
