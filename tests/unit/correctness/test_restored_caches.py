"""Each start has a copy of its own of the restored caches."""

import os
from pathlib import Path

from ci_doctor.correctness.restored_caches import CopiedCache, copy_restored


def test_a_start_gets_a_copy_with_its_times_whose_paths_lead_into_it(tmp_path: Path) -> None:
    tree = tmp_path / "restored"
    (tree / "k").mkdir(parents=True)
    (tree / "k" / "__grp__k.json").write_text(str(tree))
    (tree / "k" / "k.cubin").write_bytes(b"code")
    os.utime(tree / "k" / "k.cubin", ns=(5, 7))
    copied = CopiedCache(
        variable="TRITON_CACHE_DIR",
        subdirectory="",
        tree=tree,
        rewrite=lambda root: (
            lambda _path, content: content.replace(str(tree).encode(), root.encode())
        ),
    )

    copy_restored([copied], {"TRITON_CACHE_DIR": str(tmp_path / "start-1")})

    start = tmp_path / "start-1" / "k"
    assert (start / "__grp__k.json").read_text() == str(tmp_path / "start-1")
    assert (start / "k.cubin").stat().st_mtime_ns == 7
    assert (tree / "k" / "__grp__k.json").read_text() == str(tree)
