"""Candidate rows through gates and rounds into a published folder."""

from __future__ import annotations
