"""Keeping held-out tasks out: what is held out, the steps that find it, and what they report."""

from __future__ import annotations
