# SPDX-License-Identifier: Apache-2.0
"""Pure. One teller of progress (`teller`), and a source for each room whose events it shows."""
