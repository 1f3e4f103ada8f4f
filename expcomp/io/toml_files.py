"""TOML documents: those of the package itself, and those an option names."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from expcomp.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def packaged_folders(package: str, folder: str) -> list[str]:
    """Names of the folders inside a folder of a package, sorted."""
    root = files(package).joinpath(folder)
    return sorted(f.name for f in root.iterdir() if f.is_dir() and not f.name.startswith("_"))


def packaged_toml(package: str, folder: str) -> dict[str, dict[str, Any]]:
    """Every TOML document of a folder of a package, by file name, sorted."""
    root = files(package).joinpath(folder)
    found = sorted((f for f in root.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    return {f.name: tomllib.loads(f.read_text("utf-8")) for f in found}


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML document.

    Raises:
        ConfigError: It is absent, unreadable or no TOML.
    """
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{path}: cannot be read as TOML ({error})"
        raise ConfigError(msg) from error
