# SPDX-License-Identifier: Apache-2.0
"""The life of a command, from the lock on its report directory to its exit code.

A command calls a room, the room gives back an Outcome, and `Session.finish` makes a report of it.
"""
