"""Chat sets: five dialects over one reader."""

from __future__ import annotations
