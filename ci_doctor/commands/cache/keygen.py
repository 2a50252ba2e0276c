# SPDX-License-Identifier: Apache-2.0
"""`ci-doctor cache keygen`."""

from pathlib import Path

import click

from ci_doctor.commands.documented import command, option
from ci_doctor.commands.options import output_options, pass_session
from ci_doctor.session.session import Session


@command(
    "keygen",
    examples={
        "ci-doctor cache keygen signing-key": "Make signing-key and signing-key.pub.",
    },
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@option(
    "--principal",
    default="ci-doctor-cache",
    help="The name of the signer in the file of allowed signers. [default: ci-doctor-cache]",
)
@output_options
@pass_session
def keygen(session: Session, /, *, file: Path, principal: str) -> int:
    """Make a key to sign caches with: FILE and FILE.pub, in OpenSSH's format.

    FILE belongs only into the jobs that save on the default branch.
    """
    session.claim()
    from ci_doctor.caches.outcomes import key_outcome
    from ci_doctor.model.facts.cache import CacheKeyFacts
    from ci_doctor.store.signer import generate_key
    from ci_doctor.store.trust import NAMESPACE

    public = generate_key(file)
    facts = CacheKeyFacts(
        private=str(file),
        public=f"{file}.pub",
        allowed_signer=f'{principal} namespaces="{NAMESPACE}" {public}',
    )
    return session.finish(key_outcome(facts), on_stdout=True)
