# SPDX-License-Identifier: Apache-2.0
import shlex

import click
import pytest

from ci_doctor.commands.forgotten_quotes import quoted_line


@click.group()
@click.option("--baseline")
@click.option("--candidate")
@click.option("--retries", type=int)
@click.option("--json", is_flag=True)
@click.option("-s", "--service", multiple=True)
def group(**_: object) -> None:
    pass


@group.command()
def replay() -> None:
    pass


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (
            "correctness --baseline python server.py --candidate python x.py --port 1",
            "correctness --baseline 'python server.py' --candidate 'python x.py --port 1'",
        ),
        ("c --baseline python -m http.server", "c --baseline 'python -m http.server'"),
        ("c --service a=vllm serve m --json", "c --service 'a=vllm serve m' --json"),
        ("c -s a=vllm serve m -- true", "c -s 'a=vllm serve m' -- true"),
        ("c --baseline 'a b' --candidate c d", "c --baseline 'a b' --candidate 'c d'"),
        ("c --baseline python s.py replay", "c --baseline 'python s.py' replay"),
        ("c --baseline 'a b' --retries 3", None),
        ("c --json x y", None),
        ("c --baseline a -- b c", None),
        ("c --baseline", None),
        ("", None),
    ],
)
def test_a_value_of_several_words_gets_its_quotes(typed: str, meant: str | None) -> None:
    line = quoted_line(shlex.split(typed), group)

    assert line == (None if meant is None else f"ci-doctor {meant}")
