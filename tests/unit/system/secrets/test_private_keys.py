# SPDX-License-Identifier: Apache-2.0
"""No piece of a private key stays readable, however it is written and wherever it is cut."""

import base64
import json
import random
import textwrap
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ci_doctor.diagnosis.diagnosis import DiagnoseRequest, outcome_of, run
from ci_doctor.diagnosis.log_end import read_log_end
from ci_doctor.system.secrets.private_keys import (
    StreamedKeys,
    first_words,
    key_spans,
    last_words,
    without_keys,
)
from ci_doctor.system.secrets.redaction import Redactor, redact_file
from tests.support.growth import assert_linear

REDACTOR = Redactor(())


def _body(width: int, size: int) -> list[str]:
    return textwrap.wrap(base64.b64encode(random.Random(size).randbytes(size)).decode(), width)


def _pem(kind: str, width: int = 64, size: int = 700, header: str = "") -> str:
    lines = "\n".join(_body(width, size))
    return f"-----BEGIN {kind}-----\n{header}{lines}\n-----END {kind}-----"


KEYS = {
    "PKCS 8": _pem("PRIVATE KEY"),
    "RSA": _pem("RSA PRIVATE KEY"),
    "EC": _pem("EC PRIVATE KEY", size=118),
    "encrypted": _pem("ENCRYPTED PRIVATE KEY"),
    "OpenSSH": _pem("OPENSSH PRIVATE KEY", 70),
    "with headers": _pem(
        "RSA PRIVATE KEY", header="Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-1,0F\n\n"
    ),
    "PGP": _pem("PGP PRIVATE KEY BLOCK", header="Version: GnuPG v2\n\n"),
    "PuTTY": "Private-Lines: 8\n" + "\n".join(_body(64, 370)) + "\nPrivate-MAC: 00ff",
}


def _each(form: str) -> Callable[[str], str]:
    return lambda key: "\n".join(form.format(line) for line in key.split("\n"))


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda key: key,
    "indented": _each("        {}"),
    "of a rank": _each("[rank0]: {}"),
    "with a level": _each("ERROR 11-22 09:00:07 [engine.py:100] {}"),
    "with a time": _each("2026-11-22T09:00:00.123Z {}"),
    "of a container": _each("server-1  | {}"),
    "coloured": _each("\x1b[31m{}\x1b[0m"),
    "CRLF": _each("{}\r"),
    "JSON": lambda key: json.dumps({"key": key}),
    "JSON in JSON": lambda key: json.dumps(json.dumps({"key": key})),
    "JSON by line": _each('{{"message": "{}"}}'),
    "repr": repr,
    "quoted lines": _each('"{}\\n"'),
    "URL": quote,
    "with blanks": lambda key: key.replace("\n", " "),
    "YAML": lambda key: "key: |\n" + _each("    {}")(key),
    "of pytest": _each("E       {}"),
    "of diff": _each("+{}"),
}
LOG = [f"INFO 11-22 09:00:{number:02d} loading shard {number}" for number in range(20)]
TRACEBACK = ["Traceback (most recent call last):", '  File "/srv/app.py", line 1, in f', "    f()"]
ERROR = "ValueError: the key was refused"


def pieces(key: str) -> set[str]:
    """Eight characters of the lines of `key`."""
    lines = [line for line in key.split("\n") if "--" not in line and ":" not in line]
    return {line[i : i + 8] for line in lines for i in range(len(line) - 7)}


def holds_piece(text: str, key: str) -> list[str]:
    return [piece for piece in pieces(key) if piece in text or quote(piece, safe="") in text]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.gate(24)
def test_no_piece_of_a_key_is_in_what_is_cut_out_of_a_log(
    kind: str, form: str, tmp_path: Path
) -> None:
    key = KEYS[kind]
    written = FORMS[form](key).split("\n")
    log = tmp_path / "server.log"
    for lines in (
        [*LOG, *TRACEBACK, ERROR, *written],
        [*LOG, *written, "the server stopped"],
        [*TRACEBACK, f"ValueError: bad key {written[0]}", *written[1:], *LOG],
        [*written, *TRACEBACK, ERROR],
    ):
        log.write_text("\n".join(lines) + "\n")
        end = read_log_end(log)
        named = "" if end.cause is None else REDACTOR.text(end.cause.place.text)
        tail = "\n".join(REDACTOR.value(end.excerpt.lines))
        diagnosed = REDACTOR.value(outcome_of(run(DiagnoseRequest(logs=(str(log),)))))

        assert not holds_piece(named + tail, key)
        assert not holds_piece(msgspec.json.encode(diagnosed).decode(), key)
        redact_file(log, REDACTOR)
        assert not holds_piece(log.read_text(), key)
        assert log.read_text().count("\n") == len(lines)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    kind=st.sampled_from(sorted(KEYS)),
    form=st.sampled_from(
        sorted(set(FORMS) - {"JSON", "JSON in JSON", "repr", "URL", "with blanks"})
    ),
    first=st.integers(0, 12),
    last=st.integers(0, 12),
)
def test_a_key_without_its_first_and_last_lines_is_hidden(
    kind: str, form: str, first: int, last: int
) -> None:
    lines = FORMS[form](KEYS[kind]).split("\n")
    kept = lines[first : max(first + 3, len(lines) - last)]

    assert not holds_piece("\n".join(REDACTOR.value((*LOG, *kept, "done"))), KEYS[kind])
    assert not holds_piece(REDACTOR.text("\n".join(kept)), KEYS[kind])


@pytest.mark.parametrize("dots", ["...", "…"])
def test_the_line_of_a_key_after_which_pytest_left_out_the_others_is_hidden(dots: str) -> None:
    lines = [f"E         - {line}" for line in KEYS["RSA"].split("\n")[:4]]

    hidden = REDACTOR.text("\n".join(lines) + f"{dots}\nE         ")

    assert not holds_piece(hidden, KEYS["RSA"])


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("most", [40, 200, 300, 500, 640])
def test_a_text_is_cut_after_its_keys_are_out(kind: str, most: int) -> None:
    text = f"refused {KEYS[kind]} of this job {'and more ' * 40}"

    for cut in (first_words(text, most), last_words(text, most), last_words(text[:-350], most)):
        assert not holds_piece(REDACTOR.text(cut), KEYS[kind])


def test_a_text_is_cut_between_words() -> None:
    token = "hf_" + "AbCd1234" * 4

    assert first_words(f"the token {token} is refused", 20) == "the token "
    assert last_words(f"refused {token} of this job", 20) == " of this job"
    assert first_words("x" * 500, 20) == "x" * 20


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_stream_of_lines_hides_a_key_that_began_in_an_earlier_piece(kind: str, size: int) -> None:
    lines = [*LOG, *KEYS[kind].split("\n"), *LOG]
    keys = StreamedKeys()
    shown = [
        REDACTOR.text(keys.hide("\n".join(lines[start : start + size])))
        for start in range(0, len(lines), size)
    ]

    assert not holds_piece("\n".join(shown), KEYS[kind])
    assert shown[0].startswith(LOG[0])
    assert len("\n".join(shown).split("\n")) == len(lines)


def test_what_is_blanked_keeps_its_places() -> None:
    content = f"before {KEYS['RSA']} after\nnext".encode()
    hidden = without_keys(content)

    assert len(hidden) == len(content)
    assert hidden.startswith(b"before [redacted] ")
    assert hidden.endswith(b" after\nnext")


@pytest.mark.parametrize(
    "lines",
    [
        ["-----BEGIN CERTIFICATE-----", *_body(64, 300), "-----END CERTIFICATE-----"],
        ["sha256:" + "0123456789abcdef" * 4] * 3,
        ["https://raw.githubusercontent.com/o/" + "EconoApp/" * 4 + "1da96afc7317c1096a6c/x.jpg"]
        * 3,
        textwrap.wrap("H4sIAHSPQV0AA" + "".join(_body(70, 500)), 70),
        ["/usr/local/lib/python3/dist/packages/Transformers/Models/Llama/Modeling/Attention"] * 3,
    ],
)
def test_lines_that_are_no_key_stay_readable(lines: list[str]) -> None:
    assert REDACTOR.text("\n".join(lines)) == "\n".join(lines)


@pytest.mark.parametrize(
    ("piece", "size"),
    [
        ("-----BEGIN PRIVATE KEY-----\n", 1000),
        ("-----END PRIVATE KEY----- ", 1000),
        ("\\" * 40, 1000),
        ("A" * 40 + "bC1" * 8 + "\n", 1000),
        ("aB3dE6gH" * 8 + " ", 1000),
        ("aB3dE6gH" * 8 + "\x1b[0m ", 1000),
        ("%2525", 4000),
    ],
)
def test_time_is_linear_in_the_length_of_a_hostile_text(piece: str, size: int) -> None:
    assert_linear(lambda count: list(key_spans((piece * count).encode())), size)
