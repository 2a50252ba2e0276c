# SPDX-License-Identifier: Apache-2.0
"""Pure. What a line of a log is: its words without escapes, stamps and prefixes, and who wrote it."""
