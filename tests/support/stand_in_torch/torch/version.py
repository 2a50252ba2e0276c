# SPDX-License-Identifier: Apache-2.0
"""torch.version."""

from .behaviour import BEHAVIOUR

cuda: str | None = BEHAVIOUR["cuda"]
