# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from msgspec.structs import replace

from ci_doctor.correctness.localise.commands import smallest_command
from ci_doctor.correctness.localise.conditions import (
    ReducedCondition,
    ReducedResult,
    ReducedStanding,
)
from ci_doctor.correctness.localise.localisation import Localisation
from ci_doctor.correctness.localise.request_file import with_request_file
from ci_doctor.load.requests import read_requests
from ci_doctor.system.secrets.redaction import Redactor
from tests.unit.correctness.localise.subjects import subject

SHORT = ReducedCondition(request="r0", prefix=8)
NO_SECRETS = Redactor(())


def found(condition: ReducedCondition) -> Localisation:
    result = ReducedResult(condition=condition, standing=ReducedStanding.DIFFERS)
    return Localisation(subject=subject(), results=(result,))


def test_a_shortened_prompt_is_written_as_a_requests_file(tmp_path: Path) -> None:
    kept = with_request_file(found(SHORT), tmp_path, NO_SECRETS)
    assert kept.requests_file == f"{tmp_path.name}/smallest-request.jsonl"
    (request,) = read_requests(tmp_path.parent / kept.requests_file)
    assert (request.id, request.path, request.body) == (
        "r0",
        "/v1/completions",
        {"prompt": "a" * 8},
    )


def test_its_protocol_is_kept(tmp_path: Path) -> None:
    named = replace(subject().request, protocol="completions")
    result = ReducedResult(condition=SHORT, standing=ReducedStanding.DIFFERS)
    kept = Localisation(subject=subject(request=named), results=(result,))
    with_request_file(kept, tmp_path, NO_SECRETS)
    (request,) = read_requests(tmp_path / "smallest-request.jsonl")
    assert request.protocol == "completions"


def test_a_whole_prompt_needs_no_file(tmp_path: Path) -> None:
    whole = found(ReducedCondition(request="r0"))
    assert with_request_file(whole, tmp_path, NO_SECRETS) is whole
    assert not list(tmp_path.iterdir())


def test_a_prompt_with_a_secret_is_not_written_and_the_command_sends_the_whole(
    tmp_path: Path,
) -> None:
    kept = with_request_file(found(SHORT), tmp_path, Redactor(["a" * 8]))
    assert not list(tmp_path.iterdir())
    assert "holds a secret" in kept.notes[0]
    assert "--only r0" in smallest_command(kept, SHORT, ["correctness"], "out")


def test_a_disk_that_refuses_it_is_a_note(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    kept = with_request_file(found(SHORT), file, NO_SECRETS)
    assert "cannot write" in kept.notes[0]
