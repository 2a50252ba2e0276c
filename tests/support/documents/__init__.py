# SPDX-License-Identifier: Apache-2.0
"""The pages that people read: their blocks of code, their links, and the commands in both."""
