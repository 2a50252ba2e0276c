# SPDX-License-Identifier: Apache-2.0
"""The protocols that answers are read by: a module each, and a row each in `table`."""
