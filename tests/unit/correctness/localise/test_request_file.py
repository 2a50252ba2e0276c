# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.localise.commands import smallest_command
from ci_doctor.correctness.localise.localisation import Localisation
from ci_doctor.correctness.localise.request_file import with_request_file
from ci_doctor.correctness.localise.search import LocalisationSearch, LocalisedCause
from ci_doctor.correctness.localise.trials import Trial, one_by_one, together
from ci_doctor.load.requests import read_requests
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.correctness.localise.subjects import BODIES, subject

AFTER = one_by_one(["r2", "r0"])
NO_SECRETS = Redactor(())


def found(trial: Trial) -> Localisation:
    requests = LocalisationSearch(subject()).requests
    return Localisation(
        subject=subject(), conclusion=LocalisedCause(shown=(trial,)), requests=requests
    )


def command(kept: Localisation, trial: Trial) -> str:
    return smallest_command(kept, trial, ["correctness"], "out")


def test_what_comes_before_a_request_is_written_as_a_requests_file(tmp_path: Path) -> None:
    kept = with_request_file(found(AFTER), tmp_path, NO_SECRETS)
    assert kept.requests_file == f"{tmp_path.name}/smallest-request.jsonl"
    requests = read_requests(tmp_path.parent / kept.requests_file)
    assert [(each.id, each.body) for each in requests] == [("r2", BODIES[2]), ("r0", BODIES[0])]
    assert "--concurrency 1 --passes 1" in command(kept, AFTER)


def test_a_request_that_comes_twice_has_two_ids(tmp_path: Path) -> None:
    with_request_file(found(one_by_one(["r0", "r2", "r0"])), tmp_path, NO_SECRETS)
    requests = read_requests(tmp_path / "smallest-request.jsonl")
    assert [each.id for each in requests] == ["r0", "r2", "r0, time 2"]


def test_its_protocol_is_kept(tmp_path: Path) -> None:
    kept = found(AFTER)
    named = replace(kept.requests["r2"], protocol="completions")
    with_request_file(replace(kept, requests={**kept.requests, "r2": named}), tmp_path, NO_SECRETS)
    first, _ = read_requests(tmp_path / "smallest-request.jsonl")
    assert first.protocol == "completions"


def test_one_request_of_the_run_needs_no_file_however_often_it_is_sent(tmp_path: Path) -> None:
    thrice = found(one_by_one(["r0"] * 3))
    assert with_request_file(thrice, tmp_path, NO_SECRETS) is thrice
    assert not list(tmp_path.iterdir())
    assert "--only r0 --concurrency 1 --passes 3" in command(thrice, one_by_one(["r0"] * 3))


def test_a_group_is_sent_together_as_often_as_it_was(tmp_path: Path) -> None:
    group = together(["r0", "r2"], 2, 3)
    kept = with_request_file(found(group), tmp_path, NO_SECRETS)
    assert len(read_requests(tmp_path / "smallest-request.jsonl")) == 2
    assert "--concurrency 2 --passes 3" in command(kept, group)


def test_a_prompt_with_a_secret_is_not_written(tmp_path: Path) -> None:
    kept = with_request_file(found(AFTER), tmp_path, Redactor(["Count to twenty"]))
    assert not list(tmp_path.iterdir())
    assert "holds a secret" in kept.notes[0]


def test_a_disk_that_refuses_it_is_a_note(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    kept = with_request_file(found(AFTER), file, NO_SECRETS)
    assert "cannot write" in kept.notes[0]
