# SPDX-License-Identifier: Apache-2.0
"""Pure. How a restored tree joins a directory that exists."""

import enum


class Merge(enum.StrEnum):
    """What happens to a directory that has files already.

    `union`: files that it lacks are added. `last-writer`: a file that both have is that of the
    directory, and the rest of its group too. `whole-directories`: a group is added whole or not.
    """

    UNION = "union"
    LAST_WRITER = "last-writer"
    WHOLE_DIRECTORIES = "whole-directories"
