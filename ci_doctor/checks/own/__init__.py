# SPDX-License-Identifier: Apache-2.0
"""The checks that a repository adds."""
