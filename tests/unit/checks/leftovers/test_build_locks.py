"""Locks of killed builds."""

from pathlib import Path

from ci_doctor.checks.leftovers.build_locks import CHECK
from tests.support.checks import check_context


def test_a_lock_that_nobody_holds_is_a_warning(tmp_path: Path) -> None:
    lock = tmp_path / "py312_cu130" / "lmc_ops" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    context = check_context(tmp_path, environ={"TORCH_EXTENSIONS_DIR": str(tmp_path)})

    (found,) = CHECK.run(context).problems
    with lock.open():
        assert CHECK.run(context).problems == ()

    assert (found.finding.severity, found.finding.remedy) == ("warning", f"rm {lock}")


def test_no_lock_is_ok(tmp_path: Path) -> None:
    assert CHECK.run(check_context(tmp_path, environ={"HOME": str(tmp_path)})).problems == ()
