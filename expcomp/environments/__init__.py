"""Environment packages: a recorded world, compiled, searchable, replayable, promoted on evidence."""

from __future__ import annotations
