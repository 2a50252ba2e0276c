# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor explain`."""

import os
from pathlib import Path

import click

from ci_doctor.commands.documented import command, config_option, output_options, pass_session
from ci_doctor.explanation import explain as explanation
from ci_doctor.session.session import Session


@command(
    "explain",
    examples={
        "ci-doctor explain 75": "Explain an exit code.",
        "ci-doctor explain version/shallow-clone": "Explain the rule of a finding.",
        "ci-doctor explain \"cannot import name 'GenerationConfig'\"": "Explain an error message.",
    },
)
@click.argument(
    "word",
)
@config_option
@output_options
@pass_session
def explain(session: Session, word: str, config_path: Path | None) -> int:
    """Explain a rule, a verdict, an exit code, a word, or an error message that is pasted.

    WORD is a rule (version/shallow-clone, gpu/out-of-memory), a group of them (import-race), a
    verdict (flaky), an exit code (75), a word of a report (shim), or an error message in quotes, of
    one line or several ("cannot import name").
    """
    session.claim()

    def own_rules() -> tuple[Path, ...]:
        from ci_doctor.commands.diagnose import own_rule_files

        return own_rule_files(config_path, os.environ)

    return session.finish(explanation(word, own_rules), on_stdout=True)
