# SPDX-License-Identifier: Apache-2.0
"""The nouns that every room shares."""
