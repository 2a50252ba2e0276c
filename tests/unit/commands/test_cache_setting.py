# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from ci_doctor.caches.judge import CacheSettings
from ci_doctor.commands import cache_setting
from ci_doctor.commands.cache_setting import CacheSetting
from ci_doctor.errors import UsageError
from ci_doctor.store.objects import StoreError
from ci_doctor.store.transfer import Deadline


@pytest.mark.parametrize(
    ("is_optional", "strict", "error"),
    [(True, False, StoreError), (True, True, UsageError), (False, False, UsageError)],
)
def test_a_missing_extra_is_no_outage_but_for_a_job_that_does_without_a_store(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_optional: bool,
    strict: bool,
    error: type[Exception],
) -> None:
    monkeypatch.setattr(cache_setting, "find_spec", lambda _: None)
    settings = CacheSettings(store=str(tmp_path), strict=strict)
    setting = CacheSetting(settings=settings, deadline=Deadline(5.0))

    with pytest.raises(error, match="not installed here"):
        setting.trusted_store(is_optional=is_optional)
