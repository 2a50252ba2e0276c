# SPDX-License-Identifier: Apache-2.0
"""Pure. Thread starts and the imports they race, found in source code without importing it."""
