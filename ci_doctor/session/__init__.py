# SPDX-License-Identifier: Apache-2.0
"""The life of a command that makes a report, once for all: from the claimed directory to the exit code.

A command calls a room, the room gives back an Outcome, and `Session.finish` makes a report of it.
"""
