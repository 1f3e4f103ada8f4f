"""Bytes in, bytes out: files, digests, canonical JSON, atomic publish, sinks, progress. Knows no table."""

from __future__ import annotations
