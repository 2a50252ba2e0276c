# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest

from ci_doctor.errors import ConfigError, UsageError
from ci_doctor.load.requests import Request, protocol_of, read_requests, require_file


def written(directory: Path, content: str | bytes) -> Path:
    path = directory / "requests.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_line_is_a_request_and_knows_its_place(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '\n{"id": "a", "body": {"prompt": "x"}}\r\n\n{"id": "b", "path": "/v1/score", "body": {}}',
    )
    first, second = read_requests(path)
    assert first == Request(id="a", path="/v1/completions", body={"prompt": "x"}, line=2)
    assert second == Request(id="b", path="/v1/score", body={}, line=4)


def test_a_byte_order_mark_and_unicode_line_ends_inside_strings_are_no_trouble(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, '\ufeff{"id": "a", "body": {"prompt": "x\u2028y"}}')
    assert read_requests(path)[0].body == {"prompt": "x\u2028y"}


def test_only_the_requests_that_are_wanted_come_in_the_files_order(tmp_path: Path) -> None:
    path = written(
        tmp_path, "\n".join(f'{{"id": "r{number}", "body": {{}}}}' for number in range(4))
    )
    assert [request.id for request in read_requests(path, ["r3", "r1"])] == ["r1", "r3"]
    with pytest.raises(UsageError, match="no request has the id `r33`") as caught:
        read_requests(path, ["r33"])
    assert caught.value.hint == "did you mean `r3`?"


@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff\n"])
def test_an_empty_file_can_prove_nothing(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError, match="holds no requests"):
        read_requests(written(tmp_path, content))


GOOD = '{"id": "r0", "body": {"prompt": "a"}}'


@pytest.mark.parametrize(
    ("name", "content", "said", "hint"),
    [
        ("a.json", f"[{GOOD}]", "a.json: a JSON array", "one JSON object a line: jq -c '.[]' "),
        (
            "a.json",
            f"[\n  {GOOD}\n]",
            "a.json: a JSON array",
            "one JSON object a line: jq -c '.[]' ",
        ),
        ("a.json", f'{{"tests": [{GOOD}]}}', "with the array `tests`", "jq -c '.\"tests\"[]' "),
        ("a.jsonl", '{\n"id": "r0",\n"body": {}\n}', "JSON with other line ends", "jq -c . "),
        ("a.jsonl", GOOD + GOOD, "JSON with other line ends", "jq -c . "),
        ("a.yaml", "tests:\n- id: r0\n", "a.yaml: YAML", "write one JSON object a line: {"),
        ("a.txt", "- id: r0\n  body: {}\n", "a.txt: YAML", "write one JSON object a line: {"),
        ("a.csv", "id,prompt\nr0,a\n", "a.csv:1: not JSON", "write one JSON object a line: {"),
        (
            "a.jsonl",
            f"{GOOD}\n{{oops\n",
            "a.jsonl:2: not JSON: Expecting property name",
            "one JSON",
        ),
        ("a.jsonl", f"{GOOD},\n", "a.jsonl:1: not JSON", "without a comma"),
        ("a.jsonl", f"# mine\n{GOOD}\n", "a.jsonl:1: not JSON", "no comments"),
        ("a.jsonl", '{"custom_id": "r0"}', "unknown key `custom_id`", "it is `id` here"),
        (
            "a.jsonl",
            '{"model": "m", "messages": [{"role": "user"}]}',
            "unknown key `model`",
            "`body`",
        ),
        ("a.jsonl", GOOD.encode("utf-16"), "a.jsonl:1: no text in UTF-8", "iconv -f UTF-16"),
        ("a.jsonl", f"{GOOD}\né".encode("latin-1"), "a.jsonl:2: no text in UTF-8", "as UTF-8"),
        ("a.gz", b"\x1f\x8b\x08", "no text in UTF-8", "compressed"),
        ("", "", "a directory", "name a file in it: "),
    ],
)
def test_a_file_of_another_form_is_called_by_its_form(
    tmp_path: Path, name: str, content: str | bytes, said: str, hint: str
) -> None:
    (tmp_path / "in.jsonl").write_text(GOOD)
    if name:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError) as caught:
        read_requests(tmp_path / name)
    assert said in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("prompts.json", "did you mean `{}/prompts.jsonl`?"),
        ("promts.jsonl", "did you mean `{}/prompts.jsonl`?"),
        ("prompts", "did you mean `{}/prompts.jsonl`?"),
        ("questions.txt", "JSON lines are in {}/prompts.jsonl"),
        ("elsewhere/questions.txt", "`ci-doctor init` proposes one"),
    ],
)
def test_a_missing_file_names_its_place_and_the_file_of_nearly_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, hint: str
) -> None:
    (tmp_path / "prompts.jsonl").write_text(GOOD)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(UsageError) as caught:
        require_file(tmp_path / name, "ci-doctor.toml:4")
    assert caught.value.message.endswith("no such file; it is named by ci-doctor.toml:4")
    assert hint.format(tmp_path) in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"id": "a"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"id": "a", "body": {"x": NaN}}', "not JSON: NaN"),
        ('"a"', "not a JSON object"),
        ('{"id": "a", "body": {}, "pth": "/"}', "unknown key `pth`"),
        ('{"id": 3, "body": {}}', "`id` must be"),
        ('{"id": "", "body": {}}', "`id` must be"),
        ('{"id": "a\\nb", "body": {}}', "`id` must be"),
        ('{"id": "\\udc00", "body": {}}', "`id` must be"),
        ('{"body": {}}', "`id` must be"),
        ('{"id": "a", "path": "v1", "body": {}}', "`path` must be"),
        ('{"id": "a", "path": "//host/v1", "body": {}}', "`path` must be"),
        ('{"id": "a", "path": "/v 1", "body": {}}', "`path` must be"),
        ('{"id": "a", "path": 3, "body": {}}', "`path` must be"),
        (f'{{"id": "a", "path": "/v1/score?{"x" * 70_000}", "body": {{}}}}', "`path` must be"),
        ('{"id": "a", "body": []}', "`body` must be an object"),
        ('{"id": "a"}', "`body` must be an object"),
        ('{"id": "a", "body": {"n": 1, "n": 2}}', "not JSON: the key"),
        ('{"id": "r0", "body": {}}', "id `r0` is already used in line 1"),
    ],
)
def test_a_wrong_line_is_named_with_its_number(tmp_path: Path, line: str, said: str) -> None:
    path = written(tmp_path, f'{{"id": "r0", "body": {{}}}}\n{line}\n')
    with pytest.raises(ConfigError) as caught:
        read_requests(path)
    assert caught.value.message.startswith(f"{path}:2: ")
    assert said in caught.value.message


def test_a_prompt_with_a_lone_surrogate_can_be_sent() -> None:
    content = Request(id="a", path="/", body={"prompt": "\ud800"}, line=1).content()
    assert json.loads(content) == {"prompt": "\ud800"}


def test_an_answer_may_be_asked_for_as_a_stream(tmp_path: Path) -> None:
    body = {"prompt": "x", "stream": True, "stream_options": {"include_usage": True}}
    assert read_requests(written(tmp_path, json.dumps({"id": "a", "body": body})))[0].body == body


NONE = "no protocol is known for the path"


@pytest.mark.parametrize(
    ("key", "value", "said", "hint"),
    [
        ("path", "/v1/embedings", f"{NONE} `/v1/embedings`", "did you mean `/v1/embeddings`?"),
        ("path", "/my/model", f"{NONE} `/my/model`", "/v1/chat/completions"),
        ("path", "/my/model", f"{NONE} `/my/model`", "/v1/rerank"),
        ("protocol", "chats", "there is no protocol", "did you mean `chat`?"),
        ("protocol", 3, "there is no protocol", "known"),
    ],
)
def test_a_path_or_a_protocol_that_is_none_is_refused_with_the_nearest_or_all(
    tmp_path: Path, key: str, value: object, said: str, hint: str
) -> None:
    path = written(tmp_path, json.dumps({"id": "a", key: value, "body": {}}))
    with pytest.raises(ConfigError, match=said) as it:
        read_requests(path)
    assert it.value.message.startswith(f"{path}:1: ")
    assert hint in (it.value.hint or "")


def test_a_get_has_no_body_and_its_method_is_part_of_what_identifies_it(tmp_path: Path) -> None:
    line = '{"id": "a", "path": "/items?q=1", "method": "GET", "protocol": "json"}'
    (request,) = read_requests(written(tmp_path, line))
    assert (request.method, request.body, request.content()) == ("GET", {}, b"")
    assert request.rare_parts() == {"protocol": "json", "method": "GET"}
    for wrong in ('"body": {"q": 1}, "method": "GET"', '"method": "PUT"', '"method": ["GET"]'):
        path = written(tmp_path, f'{{"id": "a", "path": "/v1/score", {wrong}}}')
        with pytest.raises(ConfigError):
            read_requests(path)


def test_a_path_of_its_own_may_name_its_protocol(tmp_path: Path) -> None:
    path = written(
        tmp_path, '{"id": "a", "path": "/my/model", "protocol": "embeddings", "body": {}}'
    )
    (request,) = read_requests(path)
    assert protocol_of(request).name == "embeddings"
