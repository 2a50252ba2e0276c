# SPDX-License-Identifier: Apache-2.0
"""Explain: which line of a log names the cause."""
