# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest

from ci_doctor.correctness.planning import sampling_findings
from ci_doctor.load.prompts import prompt_of, token_limit
from ci_doctor.load.requests import Request, read_requests
from ci_doctor.scaffold.servers import Api
from ci_doctor.scaffold.texts import api_requests

APIS = [api for api in Api if api is not Api.ROUTES]


def requests(directory: Path, *apis: Api, short: bool = False) -> tuple[Request, ...]:
    lines = api_requests(apis, {}, "m", short=short)
    path = directory / "r.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_requests(path)


@pytest.mark.parametrize("api", APIS)
def test_each_api_gets_twenty_repeatable_requests_with_bounded_answers(
    api: Api, tmp_path: Path
) -> None:
    made = requests(tmp_path, api)
    assert len(made) == 20
    assert len({prompt_of(request) for request in made}) == 20
    assert sampling_findings(made, tmp_path) == ()
    if api is not Api.EMBEDDINGS:
        assert all((token_limit(request) or 999) <= 96 for request in made)


def test_several_apis_come_in_turn_and_ids_stay_when_one_is_added(tmp_path: Path) -> None:
    made = requests(tmp_path, Api.CHAT, Api.COMPLETIONS)
    ids = [request.id for request in made[:4]]
    assert ids == ["chat-01", "completions-01", "chat-02", "completions-02"]
    assert requests(tmp_path, Api.CHAT, Api.COMPLETIONS) == made


def test_prompts_share_a_beginning_longer_than_a_block_of_a_cache(tmp_path: Path) -> None:
    texts = [prompt_of(request) for request in requests(tmp_path, Api.COMPLETIONS)]
    long = [text for text in texts if len(text) > 1500]
    # A token of English text has some four characters, and LMCache's block 256 tokens.
    assert len(long) == 6
    assert len({text[:1100] for text in long}) == 1
    lengths = sorted(map(len, texts))
    assert lengths[0] < 40
    assert lengths[-1] < 2500


def test_a_small_context_is_not_exceeded(tmp_path: Path) -> None:
    made = requests(tmp_path, Api.COMPLETIONS, Api.CHAT, short=True)
    assert max(len(prompt_of(request)) for request in made) < 300
    assert max(token_limit(request) or 999 for request in made) <= 24


def test_a_model_is_named_if_it_is_known() -> None:
    with_model = api_requests([Api.CHAT, Api.TGI_GENERATE], {}, "m", short=True)
    assert [line["body"].get("model") for line in with_model[:2]] == ["m", None]
    assert "model" not in api_requests([Api.CHAT], {}, None, short=True)[0]["body"]
    moved = api_requests([Api.CHAT], {Api.CHAT: "/x/chat/completions"}, None, short=True)
    assert {line["path"] for line in moved} == {"/x/chat/completions"}
