# SPDX-License-Identifier: Apache-2.0

import pytest
from msgspec.structs import replace

from ci_doctor.store.plan import Merge, PresentFile, default_group, plan_merge
from tests.unit.store.test_manifest import ENTRY

SAME = PresentFile(bytes=ENTRY.bytes, mtime_ns=ENTRY.mtime_ns)
OTHER = PresentFile(bytes=ENTRY.bytes, mtime_ns=2)
ENTRIES = [replace(ENTRY, path=path) for path in ("k1/a", "k1/b", "k2/a", "top")]


def planned(merge: Merge, present: dict[str, PresentFile]) -> tuple[set[str], set[str], int]:
    plan = plan_merge(ENTRIES, merge, default_group(merge), present)
    return {entry.path for entry in plan.files}, set(plan.directories), plan.kept_existing


@pytest.mark.parametrize(
    ("merge", "present", "files", "directories", "kept"),
    [
        (Merge.UNION, {}, {"k1/a", "k1/b", "k2/a", "top"}, set(), 0),
        (Merge.UNION, {"k1/a": OTHER}, {"k1/b", "k2/a", "top"}, set(), 1),
        (Merge.LAST_WRITER, {"k1/a": OTHER}, {"k2/a", "top"}, set(), 2),
        (Merge.LAST_WRITER, {"k1/a": SAME}, {"k1/b", "k2/a", "top"}, set(), 1),
        (Merge.WHOLE_DIRECTORIES, {}, {"top"}, {"k1", "k2"}, 0),
        (Merge.WHOLE_DIRECTORIES, {"k1": OTHER}, {"top"}, {"k2"}, 2),
        (Merge.WHOLE_DIRECTORIES, {"k1": OTHER, "k1/a": SAME}, {"top"}, {"k2"}, 2),
        (Merge.WHOLE_DIRECTORIES, {"top": OTHER}, set(), {"k1", "k2"}, 1),
    ],
)
def test_a_group_joins_whole_or_not_at_all(
    merge: Merge,
    present: dict[str, PresentFile],
    files: set[str],
    directories: set[str],
    kept: int,
) -> None:
    assert planned(merge, present) == (files, directories, kept)
