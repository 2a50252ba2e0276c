# SPDX-License-Identifier: Apache-2.0
"""Client load for OpenAI-compatible servers: requests, how they are sent, answers in one form."""
