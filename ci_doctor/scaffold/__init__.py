# SPDX-License-Identifier: Apache-2.0
"""A first configuration for a repository: what lies there, and the files that are proposed for it."""
