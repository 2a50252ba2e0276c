"""Nameservers in /etc/resolv.conf."""

from pathlib import Path

from ci_doctor.checks.network.nameservers import CHECK
from tests.support.checks import check_context


def test_the_nameservers_are_shown(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "resolv.conf").write_text("# a\nsearch b\nnameserver 192.0.2.53\n")

    result = CHECK.run(check_context(tmp_path, root=tmp_path))

    assert (result.summary, result.problems) == ("/etc/resolv.conf names 192.0.2.53", ())


def test_none_is_a_note(tmp_path: Path) -> None:
    (found,) = CHECK.run(check_context(tmp_path, root=tmp_path)).problems

    assert (found.finding.rule, found.finding.severity) == ("doctor/no-nameserver", "note")
