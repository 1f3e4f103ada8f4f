"""A verifiers environment: a Python package with a taskset, one task a case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from expcomp.environments.exports.bundle import Bundle, LeftOut, put_cases, put_package
from expcomp.environments.exports.case_lines import json_lines
from expcomp.environments.exports.tasks import tasks_of
from expcomp.environments.exports.texts import module_name, pyproject, requirement, slug
from expcomp.io.staging import subfolder
from expcomp.io.text_files import write_texts

TASKS = "tasks.jsonl"
NEEDS = "verifiers>=0.4"

MODULE = '''"""The taskset."""

from pathlib import Path

from expcomp.environments.exports.verifiers_taskset import taskset

WorldTaskset = taskset(Path(__file__).parent)

__all__ = ["WorldTaskset"]
'''


def write_verifiers(made: Bundle, staging: Path) -> LeftOut:
    """Write the package; a case whose recorded calls do not score 1, or that has nothing to ask for, is left out."""
    asked, left = tasks_of(made)
    name = module_name(made.package.config.environment_id)
    inner = subfolder(staging / name)
    put_package(made, inner)
    kept = made.of_all(asked)
    put_cases(kept, inner)
    write_texts(staging, _files(made, name, asked))
    return left


def _files(made: Bundle, name: str, asked: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    config = made.package.config
    about = config.description or f"Environment package {config.environment_id}"
    yield "pyproject.toml", pyproject(slug(name), about, [requirement(), NEEDS], name)
    yield f"{name}/__init__.py", MODULE
    yield f"{name}/{TASKS}", json_lines([{"case_id": case, "prompt": text} for case, text in asked.items()])
    readme = (
        f"# {config.name or config.environment_id}\n\n{about}\n\n"
        f"Artifact digest `{made.package.artifact_digest}`, {len(asked):,} tasks. The reward is the share of the recorded state that "
        f"holds times the share of the recorded calls that were made.\n\nInstall it, then name the taskset `{slug(name)}`.\n"
    )
    yield "README.md", readme
