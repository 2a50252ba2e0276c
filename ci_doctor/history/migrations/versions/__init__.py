# SPDX-License-Identifier: Apache-2.0
"""A module for each version of the schema; a published one is never changed."""
