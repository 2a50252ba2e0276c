# SPDX-License-Identifier: Apache-2.0
"""Rules of shell scripts, over a syntax tree of their own."""
