# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor explain`."""

import click

from ci_doctor.commands import completion_values as values
from ci_doctor.commands.options import output_options, pass_session
from ci_doctor.explanation import explain as explanation
from ci_doctor.session.session import Session


@click.command("explain")
@click.argument("word", shell_complete=values.explained_words)
@output_options
@pass_session
def explain(session: Session, word: str) -> int:
    """Explain a finding's rule, a verdict, an exit code, or the error of an import.

    WORD is a rule (version/shallow-clone), a group of them (import-race), a verdict (flaky), an
    exit code (75), or the text of an error in quotes ("cannot import name").
    """
    session.claim()
    return session.finish(explanation(word), on_stdout=True)
