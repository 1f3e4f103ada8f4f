"""Refs, the catalogue of referenced files, and redaction."""

from __future__ import annotations
