# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor pipeline retry-rules`."""

import os
from pathlib import Path

from ci_doctor.buildkite.retry_rules import rules_for
from ci_doctor.commands.documented import command
from ci_doctor.commands.options import config_option, output_options, pass_session
from ci_doctor.config.exit_codes import read_exit_codes
from ci_doctor.config.loading import load_config
from ci_doctor.model.outcome import Outcome
from ci_doctor.session.session import Session


@command(
    "retry-rules",
    examples={
        "ci-doctor pipeline retry-rules": "Print the rules for the codes of this repository.",
    },
)
@config_option
@output_options
@pass_session
def retry_rules(session: Session, config_path: Path | None) -> int:
    """Print a step's `retry` and `soft_fail` as YAML.

    They match the codes of `[exit-codes]`. A failure of the change has no rule: it is never retried and never let pass.
    """
    session.claim()
    codes, _ = read_exit_codes(load_config(config_path, Path.cwd()), os.environ)
    facts = rules_for(codes)
    rules = len(facts.retry) + len(facts.soft_fail)
    outcome = Outcome(verdict=None, summary=f"{rules} rules for a step", facts=facts)
    return session.finish(outcome, on_stdout=True, text=facts.yaml)
