"""Row families: tables to candidate rows, by expressions."""

from __future__ import annotations
