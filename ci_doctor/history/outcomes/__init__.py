# SPDX-License-Identifier: Apache-2.0
"""From facts to outcomes: a summary, tables and findings for each command."""
