# SPDX-License-Identifier: Apache-2.0
"""Acts on other interpreters: the files of the shim, as templates."""
