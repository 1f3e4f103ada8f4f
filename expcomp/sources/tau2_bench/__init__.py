"""tau2-bench results."""

from __future__ import annotations
