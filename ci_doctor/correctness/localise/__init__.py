# SPDX-License-Identifier: Apache-2.0
"""After a difference: the smallest condition under which it is still there."""
