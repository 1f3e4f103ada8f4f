"""verifiers results and traces."""

from __future__ import annotations
