# SPDX-License-Identifier: Apache-2.0
"""Acts on other interpreters: the programs with which `verify` plays a race."""
