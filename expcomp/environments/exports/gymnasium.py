"""A Gymnasium environment: a small Python package that registers the package under a name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from expcomp.environments.exports.bundle import Bundle, LeftOut, put_cases, put_package
from expcomp.environments.exports.texts import module_name, pyproject, requirement, slug
from expcomp.io.staging import subfolder
from expcomp.io.text_files import write_texts

MODULE = '''"""Importing this registers the environment."""

from pathlib import Path

import gymnasium

HERE = Path(__file__).parent

gymnasium.register(
    id="expcomp/{name}-v0",
    entry_point="expcomp.environments.gym:ReplayEnv",
    kwargs={{"package": HERE / "package", "cases": HERE / "cases.jsonl", "allow_unvalidated": True}},
)
'''


def write_gymnasium(made: Bundle, staging: Path) -> LeftOut:
    """Write the package; every case may be reset to."""
    name = module_name(made.package.config.environment_id)
    inner = subfolder(staging / name)
    put_package(made, inner)
    put_cases(made, inner)
    write_texts(staging, _files(made, name))
    return {}


def _files(made: Bundle, name: str) -> Iterator[tuple[str, str]]:
    config = made.package.config
    about = config.description or f"Environment package {config.environment_id}"
    yield "pyproject.toml", pyproject(f"{slug(name)}-gym", about, [requirement("[gym]")], name)
    yield f"{name}/__init__.py", MODULE.format(name=name)
    readme = (
        f"# {config.name or config.environment_id}\n\n{about}\n\n"
        f"Artifact digest `{made.package.artifact_digest}`, {made.cases.height:,} cases.\n\n"
        f'```python\nimport gymnasium\n\nenv = gymnasium.make("{name}:expcomp/{name}-v0")\n'
        'observation, info = env.reset(seed=0)  # or options={"case_id": ...}, {"initial_state": ...}\n```\n'
    )
    yield "README.md", readme
