# SPDX-License-Identifier: Apache-2.0
"""From facts about caches to outcomes: a sentence, tables, findings. Pure."""
