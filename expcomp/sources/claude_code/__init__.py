"""Claude Code sessions."""

from __future__ import annotations
