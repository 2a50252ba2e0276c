# SPDX-License-Identifier: Apache-2.0
"""The log of each start: bounded, watched, and read for the lines that tell."""
