# SPDX-License-Identifier: Apache-2.0
"""Acts on processes: leaves a channel to cat(1), for those who still write after a command's end.

If we closed it, SIGPIPE would kill a server that the command has left in the background.
"""

import contextlib
import os
import signal

from ci_doctor.system.relay.channel import STDERR, STDOUT, Channel


def hand_over(channel: Channel) -> None:
    """From now on cat passes the output of `channel` on, until nobody writes any more."""
    actions = [
        (os.POSIX_SPAWN_DUP2, channel.source, 0),
        (os.POSIX_SPAWN_DUP2, channel.target, STDOUT),
        # It would complain of a terminal's end (EIO).
        (os.POSIX_SPAWN_OPEN, STDERR, os.devnull, os.O_WRONLY, 0),
    ]
    # Without cat they get SIGPIPE, as from any reader that leaves.
    with contextlib.suppress(OSError):
        os.posix_spawnp(
            "cat", ["cat"], os.environ, file_actions=actions, setsigdef=[signal.SIGPIPE]
        )
