"""OpenHands conversations and exports."""

from __future__ import annotations
