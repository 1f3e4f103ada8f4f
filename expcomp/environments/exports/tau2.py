"""A tau2-bench domain: data and code, to be laid over a checkout."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from keyword import iskeyword
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.environments.exports.bundle import Bundle, LeftOut, put_package
from expcomp.environments.exports.tasks import tasks_of
from expcomp.environments.exports.texts import module_name, requirement
from expcomp.environments.package import EnvironmentPackage
from expcomp.environments.paths import NAMESPACES
from expcomp.environments.records import lines
from expcomp.errors import UsageError
from expcomp.io.documents import json_document
from expcomp.io.staging import subfolder
from expcomp.io.text_files import write_texts

DATABASE, POLICY, TASKS, SPLITS = "db.json", "policy.md", "tasks.json", "split_tasks.json"

ENVIRONMENT = '''"""Environment and tasks of the domain."""

from tau2.utils.utils import DATA_DIR

from expcomp.environments.exports.tau2_domain import domain

get_environment, get_tasks, get_tasks_split = domain(DATA_DIR / "tau2" / "domains" / "{name}", "{name}")
'''

DATA_MODEL = '''"""Database of the domain: the state of the world."""

from expcomp.environments.exports.tau2_domain import WorldDB

__all__ = ["WorldDB"]
'''

TOOLS = '''"""Tools of the domain: one an action of the package."""

from tau2.utils.utils import DATA_DIR

from expcomp.environments.exports.tau2_domain import toolkit
from expcomp.environments.folder import open_package

WorldTools = toolkit(open_package(DATA_DIR / "tau2" / "domains" / "{name}" / "package"))
'''

README = """# {name}

Lay `data` and `src` over a checkout of tau2-bench, install `{needs}` there, and add to `src/tau2/registry.py`:

```python
from tau2.domains.{name} import environment as {name}

registry.register_domain({name}.get_environment, "{name}")
registry.register_tasks({name}.get_tasks, "{name}", get_task_splits={name}.get_tasks_split)
```

Artifact digest of the package: `{digest}`.
"""


def mutating(package: EnvironmentPackage) -> frozenset[str]:
    """Actions that change the state: those with a supported rule that has an effect."""
    effects = package["mutations"].filter(pl.col("owner_kind") == "rule").select(rule_id="owner_id")
    rules = package["rules"].filter(pl.col("status") == "supported")
    return frozenset(rules.join(effects, on="rule_id", how="semi", maintain_order="left")["action_type"])


def write_tau2(made: Bundle, staging: Path) -> LeftOut:
    """Write the domain; a case whose recorded calls do not score 1, or that has nothing to ask for, is left out.

    Raises:
        UsageError: An action or an argument has a name that no Python function may have.
    """
    _callable(made.package)
    asked, left = tasks_of(made)
    odd = {c: key for c in asked if (key := _not_stored(made, c))}
    left |= {c: f"its initial state has {key}, which the database of a domain cannot hold" for c, key in odd.items()}
    name = module_name(made.package.config.environment_id)
    data = subfolder(staging / "data/tau2/domains" / name)
    put_package(made, data)
    write_texts(staging, _files(made, name, {c: text for c, text in asked.items() if c not in odd}))
    return left


def _callable(package: EnvironmentPackage) -> None:
    names = [*package["action_schema"]["action"], *package["action_args"]["arg"]]
    odd = sorted({n for n in names if not n.isidentifier() or iskeyword(n) or n == "self"})
    if odd:
        raise UsageError(f"tools of tau2 are Python functions; {', '.join(map(repr, odd[:5]))} cannot be named in one")


def _not_stored(made: Bundle, case_id: str) -> str:
    """Keys of the initial state beside the namespaces that hold anything."""
    state = json.loads(made.of(case_id)[0]["initial_state_json"][0])
    return ", ".join(sorted(k for k, v in state.items() if k not in NAMESPACES and v))


def _files(made: Bundle, name: str, asked: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    data, code = f"data/tau2/domains/{name}", f"src/tau2/domains/{name}"
    writes = mutating(made.package)
    yield f"{data}/{DATABASE}", json_document({n: {} for n in NAMESPACES})
    yield f"{data}/{POLICY}", _policy(made.package)
    yield f"{data}/{TASKS}", json_document([_task(made, case, text, writes) for case, text in asked.items()])
    yield f"{data}/{SPLITS}", json_document({"base": list(asked)})
    yield f"{code}/__init__.py", ""
    yield f"{code}/environment.py", ENVIRONMENT.format(name=name)
    yield f"{code}/data_model.py", DATA_MODEL
    yield f"{code}/tools.py", TOOLS.format(name=name)
    yield "README.md", README.format(name=name, needs=requirement(), digest=made.package.artifact_digest)


def _policy(package: EnvironmentPackage) -> str:
    config = package.config
    notes = package["notes"].filter(pl.col("status") == "supported")["statement"]
    told = "".join(f"- {n}\n" for n in notes)
    head = f"# {config.name or config.environment_id}\n\n{config.description or ''}".rstrip()
    return f"{head}\n" + (f"\n{told}" if told else "")


def _task(made: Bundle, case_id: str, asked: str, writes: frozenset[str]) -> dict[str, Any]:
    cases, steps = made.of(case_id)
    aliases = dict(lines(made.package["action_aliases"], "alias", "action"))
    calls = [
        (aliases.get(action, action), json.loads(arguments))
        for action, arguments in lines(steps.sort("ordinal"), "action_type", "arguments_json")
    ]
    state = json.loads(cases["initial_state_json"][0])
    # The state says nothing of a case that only reads: there the calls count.
    basis = "DB" if any(action in writes for action, _ in calls) else "ACTION"
    return {
        "id": case_id,
        "description": {"purpose": None, "relevant_policies": None, "notes": f"recorded case {case_id}"},
        "user_scenario": {"persona": None, "instructions": asked},
        "initial_state": {
            "initialization_data": {"agent_data": {n: state.get(n, {}) for n in NAMESPACES}, "user_data": None},
            "initialization_actions": None,
            "message_history": None,
        },
        "evaluation_criteria": {
            "actions": [
                {
                    "action_id": f"{case_id}_{i}",
                    "requestor": "assistant",
                    "name": action,
                    "arguments": arguments,
                    "info": None,
                    "compare_args": None,
                }
                for i, (action, arguments) in enumerate(calls)
            ],
            "env_assertions": None,
            "communicate_info": [],
            "nl_assertions": None,
            "reward_basis": [basis],
        },
    }
