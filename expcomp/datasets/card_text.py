"""Body of the dataset card: Markdown from the numbers of a manifest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from expcomp.datasets.recipes import RELEASES, recipe, trainer
from expcomp.datasets.select import kto_weights
from expcomp.tables.targets import TARGETS

_MASKED = {
    "typed": "`arguments` is a JSON object (Arrow type `arrow.json`)",
    "plain": "`arguments` is JSON text",
    "text": "text messages only",
    "sharegpt": "strings only",
    "native": "native JSON objects",
}
_COUNTS = {
    "label_sources": "label source",
    "verifiers": "verifier",
    "pair_levels": "level of the pair",
    "published_splits": "split that the benchmark publishes",
    "compile_rejected": "reason for which the compile had rejected rows before",
}
_TYPED = """`arguments` of calls is Arrow type `arrow.json`, read by `datasets` 4.7 and later as `Json()`. Without `datasets`: pandas and
PyArrow show JSON text; Polars shows `Extension('arrow.json', String)`, and `.ext.storage()` gives the text back."""
_LOADING = """```python
from datasets import load_dataset

data = load_dataset("DIR", "{config}")  # DIR: this directory
```"""
_TWINS = """The JSONL twins hold the same rows in the same order: `load_dataset("DIR/data", "{config}")` reads them with the same types
(`datasets` takes one file format a README, so theirs is `data/README.md`). Prefer Parquet: read from JSON
lines, a column in which every text looks like a time becomes times, and numbers keep ten decimals. Read on its own, a JSONL file needs
both its types and the word that it is no raw agent session:

```python
from datasets import load_dataset, load_dataset_builder

features = load_dataset_builder("DIR/data", "{config}").info.features
data = load_dataset("json", data_files="{file}", features=features, parse_agent_traces=False)
```"""


def body(manifest: Mapping[str, Any]) -> str:
    """The Markdown below the front matter."""
    configs = [c for c in manifest["configs"] if c["files"]]
    parts = [
        f"# {_line(manifest.get('name') or 'Agent training rows')}",
        manifest.get("description")
        or "Training rows compiled from recorded attempts of agents, each traceable to its attempt and to the evidence behind it.",
        _contents(manifest["configs"]),
        _loading(configs),
        "## Types\n\n" + _TYPED if any(TARGETS[c["target"]].profile == "typed" for c in configs) else "",
        _making(manifest),
        _left(manifest["configs"]),
        _decontamination(manifest.get("decontamination")),
        "## What is known of the rows\n\n" + "\n\n".join(_known(c) for c in configs) if configs else "",
        "## Training\n\nSettings are those of the releases named. `DIR` is this directory, `MODEL` your model."
        if configs
        else "",
        *(_training(c) for c in configs),
        _identity(manifest),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def _loading(configs: list[Mapping[str, Any]]) -> str:
    if not configs:
        return ""
    kinds = {f["path"].rsplit(".", 1)[1] for c in configs for f in c["files"]}
    main = next((c for c in configs if any(f["path"].endswith(".parquet") for f in c["files"])), configs[0])
    parts = ["## Loading", _LOADING.format(config=main["config"])]
    twin = next(((c["config"], f["path"]) for c in configs for f in c["files"] if f["path"].endswith(".jsonl")), None)
    if twin and "parquet" in kinds:
        parts.append(_TWINS.format(config=twin[0], file=f"DIR/{twin[1]}"))
    return "\n\n".join(parts)


def _contents(configs: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (
            f"`{c['config']}`",
            TARGETS[c["target"]].description,
            f"{c['rows']:,}",
            ", ".join(f"{s} {n:,}" for s, n in c["splits"].items()) or "none",
            ", ".join(sorted({f["path"].rsplit(".", 1)[1] for f in c["files"]})) or "none",
            _MASKED[TARGETS[c["target"]].profile],
        )
        for c in configs
    ]
    return "## Contents\n\n" + _table(("config", "for", "rows", "splits", "files", "form"), rows)


def _making(manifest: Mapping[str, Any]) -> str:
    options = manifest.get("options") or {}
    flat = {k: v for k, v in options.items() if not isinstance(v, Mapping)}
    flat |= {f"{k}.{i}": v for k, m in options.items() if isinstance(m, Mapping) for i, v in m.items()}
    if not flat:
        return ""
    # Where a tool lies is the business of one machine; its name is enough here.
    flat |= {k: PurePath(flat[k]).name for k in ("tokenizer", "templates") if flat.get(k)}
    version = manifest.get("expcomp_version")
    by = f"Made by expcomp {version} from a compile of recorded attempts." if version else "Made by expcomp."
    note = (
        "Splits go by group, never by row: rows of one task (or of the wider `group`) are in one split. "
        "Only what the agent itself wrote carries loss."
    )
    return f"## How it was made\n\n{by} {note}\n\n" + _table(
        ("option", "value"), [(f"`{k}`", _value(v)) for k, v in flat.items()]
    )


def _left(configs: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (f"`{c['config']}`", f"`{reason}`", f"{n:,}")
        for c in configs
        for reason, n in sorted((c.get("left") or {}).items(), key=lambda kv: (-kv[1], kv[0]))
    ]
    if not rows:
        return "## Left out\n\nNothing was left out."
    return "## Left out\n\nEvery candidate is either in the files or here.\n\n" + _table(
        ("config", "reason", "candidates"), rows
    )


def _decontamination(about: Mapping[str, Any] | None) -> str:
    head = "## Decontamination\n\n"
    if not about:
        return head + "The rows were not held against any held-out set."
    found = ", ".join(f"{n:,} {k}" for k, n in (about.get("reports") or {}).items()) or "nothing was found"
    return f"{head}The rows were held against {about.get('heldout_tasks', 0):,} held-out tasks: {found}."


def _known(config: Mapping[str, Any]) -> str:
    facts, rows = config.get("statistics") or {}, config["rows"]
    lines = []
    for name, words in (("system", "a system prompt"), ("tools", "tool schemas")):
        if name in facts:
            lines.append(f"{facts[name]:,} of {rows:,} rows have {words}; the others' sources do not say.")
    if "tasks" in facts:
        attempts = f" and {facts['attempts']:,} attempts" if "attempts" in facts else ""
        lines.append(f"They come from {facts['tasks']:,} tasks{attempts}.")
    if "turns" in facts:
        turns = facts["turns"]
        lines.append(
            f"{turns.get('trained', 0):,} turns of the agent carry loss, {turns.get('context', 0):,} are context only."
        )
    if facts.get("labels"):
        good, bad = facts["labels"].get("true", 0), facts["labels"].get("false", 0)
        weights = kto_weights(good, bad) or (1.0, 1.0)
        balance = (
            f" Class weights that balance them: good {weights[0]}, bad {weights[1]}."
            if TARGETS[config["target"]].kind == "judged"
            else ""
        )
        lines.append(f"Labels: {good:,} good, {bad:,} bad.{balance}")
        if not good or not bad:
            lines.append("There is one class only: nothing can be told apart by these rows alone.")
    for name, words in _COUNTS.items():
        if facts.get(name):
            lines.append(f"By {words}: " + ", ".join(f"{_line(str(k))} {n:,}" for k, n in facts[name].items()) + ".")
    if facts.get("chosen_longer") is not None:
        lines.append(f"The chosen side is the longer one in {facts['chosen_longer']:.1%} of the pairs.")
    if facts.get("length_correlation") is not None:
        lines.append(f"Correlation of being chosen with length: {facts['length_correlation']:+.3f}.")
    lines += _lengths(facts.get("tokens"))
    if facts.get("templates"):
        refused = ", ".join(f"{_line(str(k))} {n:,}" for k, n in facts["templates"].items())
        lines.append(f"Rows that a chat template refuses or takes with loss: {refused}.")
    return f"**{config['config']}**\n\n" + ("\n".join(f"- {line}" for line in lines) or "- Nothing was measured.")


def _lengths(tokens: Mapping[str, Any] | None) -> list[str]:
    if not tokens:
        return ["Tokens were not counted (no tokenizer was named)."]
    over = ", ".join(f"{share:.1%} over {int(limit) // 1024}k" for limit, share in tokens.get("over", {}).items())
    keep = ", ".join(f"{share} % of the rows {limit:,}" for share, limit in tokens.get("keep", {}).items())
    note = "" if tokens.get("templated", True) else " The tokenizer has no chat template: markup is not counted."
    return [
        f"Tokens a row: median {tokens['median']:,}, longest {tokens['max']:,}; {over}. A `max_length` that keeps {keep}.{note}"
    ]


def _training(config: Mapping[str, Any]) -> str:
    made = recipe(config)
    notes = "\n".join(f"- {n}" for n in made.notes)
    head = f"### {config['config']}: {RELEASES[trainer(config['target'])]}"
    return f"{head}\n\n```{made.language}\n{made.text}\n```" + (f"\n\n{notes}" if notes else "")


def _identity(manifest: Mapping[str, Any]) -> str:
    names = {
        "digest": "dataset (canonical manifest)",
        "task_set_digest": "set of tasks",
        "input_digest": "compile it was made from",
    }
    rows = [(words, f"`{manifest[name]}`") for name, words in names.items() if manifest.get(name)]
    return "## Identity\n\n" + _table(("digest of", "value"), rows) if rows else ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(_line(c).replace("|", "\\|") for c in line) + " |" for line in lines)


def _line(text: str) -> str:
    """One line of Markdown: no breaks, no markup of HTML."""
    return re.sub(r"\s+", " ", text).replace("<", "&lt;").strip()


def _value(value: Any) -> str:
    """An option as a reader writes it. Texts that a user gave may be long: they are named, not repeated."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return (
            ", ".join(_value(v) if not isinstance(v, (list, tuple)) else " ".join(map(str, v)) for v in value) or "none"
        )
    text = str(value)
    return text if len(text) <= 80 else f"{len(text):,} characters"
