# SPDX-License-Identifier: Apache-2.0
"""The command line of a run, changed into that of another run. Pure."""

import shlex
from collections.abc import Sequence

# They say for how long and where a run is made, which another run decides anew.
_OF_THE_RUN = {"--budget", "--resume", "--report-dir"}


def command_line(argv: Sequence[str], more: Sequence[str], without: Sequence[str] = ()) -> str:
    """The command line with the options of `more` in the place of those that it has.

    `argv` are the words behind `ci-doctor`. Options in `without` are left out. All of these options
    have a value.
    """
    dropped = {*_OF_THE_RUN, *without}
    dropped.update(word for word in more if word.startswith("--"))
    words: list[str] = []
    is_value = False
    for word in argv:
        option = word.partition("=")[0]
        if not is_value and option not in dropped:
            words.append(word)
        # `--budget 25m` is two words, `--budget=25m` is one.
        is_value = not is_value and word in dropped
    return shlex.join(["ci-doctor", *words, *more])
