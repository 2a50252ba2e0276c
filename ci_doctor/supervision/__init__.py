# SPDX-License-Identifier: Apache-2.0
"""Run: one command beside us, its log, and the cause if it fails."""
