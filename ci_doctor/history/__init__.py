# SPDX-License-Identifier: Apache-2.0
"""The history of attempts: evidence files in a database, and what it answers."""
