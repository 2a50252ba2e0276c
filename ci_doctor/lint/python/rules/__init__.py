# SPDX-License-Identifier: Apache-2.0
"""One module for each rule about a Python program that decides in a job. Pure."""
