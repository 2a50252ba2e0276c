# SPDX-License-Identifier: Apache-2.0
"""One command beside us: its output and our signals handed on, and how it ended.

Everything is to be as if the command stood in our place. It is in our process group and session,
and has our stdin. Only its stdout and stderr end at us, so that a copy of them can be kept.
"""
