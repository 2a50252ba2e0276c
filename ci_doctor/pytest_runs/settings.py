# SPDX-License-Identifier: Apache-2.0
"""The `[pytest]` section. Pure."""

from msgspec import Struct


class PytestSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person writes (docs/pytest.md). rerun_budget: a duration; None for one by that of the suite."""

    rerun_budget: str | None = None
