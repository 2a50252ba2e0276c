"""What a restore has left for later commands."""

from pathlib import Path

from ci_doctor.caches.receipt import (
    InstalledFile,
    Receipt,
    forget_receipt,
    keep_receipt,
    read_receipt,
    receipts_of,
)
from ci_doctor.store.manifest import IdentityTier, Origin

NOTHING = IdentityTier(facts={})


def receipt(root: str, installed_ns: int = 5) -> Receipt:
    return Receipt(
        family="triton",
        root=root,
        store="/store",
        manifest="v1/local/manifests/triton/x",
        created_ms=1,
        installed_ns=installed_ns,
        bytes=3,
        fetched_bytes=2,
        seconds=0.5,
        origin=Origin(tool="ci-doctor 1"),
        cold=None,
        path=NOTHING,
        saved_path=NOTHING,
        soft=NOTHING,
        saved_soft=NOTHING,
        job=None,
        installed=1,
        files=(InstalledFile(path="a/b", bytes=3, mtime_ns=7, sha256="00"),),
    )


def test_a_receipt_is_read_as_it_was_kept(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/caches/triton"))

    assert read_receipt(tmp_path, "triton", Path("/caches/triton")) == receipt("/caches/triton")


def test_receipts_of_a_family_come_with_the_newest_first(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/one", installed_ns=1))
    keep_receipt(tmp_path, receipt("/two", installed_ns=2))

    assert [each.root for each in receipts_of(tmp_path, "triton")] == ["/two", "/one"]


def test_a_receipt_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/one"))
    for path in (tmp_path / "receipts").iterdir():
        path.write_bytes(path.read_bytes()[:-9])

    assert read_receipt(tmp_path, "triton", Path("/one")) is None


def test_a_forgotten_receipt_is_gone(tmp_path: Path) -> None:
    keep_receipt(tmp_path, receipt("/one"))

    forget_receipt(tmp_path, "triton", Path("/one"))

    assert receipts_of(tmp_path, "triton") == []
