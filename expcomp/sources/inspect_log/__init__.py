"""inspect_ai logs."""

from __future__ import annotations
