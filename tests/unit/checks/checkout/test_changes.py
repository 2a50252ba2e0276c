"""Files that differ from the commit."""

from pathlib import Path

from ci_doctor.checks.checkout.changes import CHECK
from tests.support.checks import check_context
from tests.support.git_repository import make_repository


def test_a_changed_file_is_a_note_and_a_new_one_is_nothing(tmp_path: Path) -> None:
    make_repository(tmp_path)
    (tmp_path / "new").touch()
    assert CHECK.run(check_context(tmp_path)).problems == ()
    (tmp_path / "README").write_text("other\n")
    index = (tmp_path / ".git" / "index").read_bytes()

    (found,) = CHECK.run(check_context(tmp_path)).problems

    assert found.finding.severity == "note"
    assert found.finding.evidence[0].excerpt == " M README"
    assert (tmp_path / ".git" / "index").read_bytes() == index
