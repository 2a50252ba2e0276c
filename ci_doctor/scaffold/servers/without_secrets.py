# SPDX-License-Identifier: Apache-2.0
"""Pure. A server's command without secrets: a file of the repository is no place for them."""

import re
from typing import Final

from msgspec.structs import replace

from ci_doctor.scaffold.reading.variables import unknown_variables
from ci_doctor.scaffold.servers.candidate import ServerCandidate
from ci_doctor.scaffold.servers.option_words import has_option, without_option
from ci_doctor.system.secrets.patterns import name_pattern
from ci_doctor.system.secrets.redaction import Redactor

_SECRET_NAME: Final = re.compile(name_pattern(), re.IGNORECASE)
# A server that wants a key refuses requests without one, and the requests hold none.
_KEYS: Final = ("--api-key", "--api_key", "--api-keys", "--admin-api-key")


def without_secrets(server: ServerCandidate) -> ServerCandidate | None:
    """The server without keys and without variables named like secrets; None if its command holds another."""
    words = list(server.words)
    notes = list(server.notes)
    for option in _KEYS:
        if has_option(words, option):
            words = without_option(words, option, 1)
            notes.append(f"without {option}: the requests carry no key")
    env = {}
    for name, value in server.env.items():
        if _SECRET_NAME.fullmatch(name):
            notes.append(f"{name} comes from the environment of the job, not from this file")
        else:
            env[name] = value
    # A value that is only a variable's name is no secret.
    written = tuple("--variable" if unknown_variables([word]) else word for word in words)
    redactor = Redactor(())
    if redactor.argv(written) != written or redactor.value(env) != env:
        return None
    return replace(server, words=tuple(words), env=env, notes=tuple(notes))
