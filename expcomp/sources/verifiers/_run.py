"""A verifiers run: what `metadata.json`, `config.toml` and the folder names say of it, and whether the rows agree."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._bytes import UnreadableError, read_bytes
from expcomp.sources._json import dump_json, load_json
from expcomp.sources._units import add_evidence, report
from expcomp.sources._values import amount, finite, items, obj, redact, text, whole
from expcomp.sources.verifiers._chat import tool_schemas

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, Unit

METADATA = "metadata.json"
CONFIG = "config.toml"
_LIMIT = 1 << 24
_TOLERANCE = 1e-3
_PARAMS = ("max_tokens", "temperature", "top_p")
# Sums are checked against the rows and not kept; the folder the run was saved in is a path of its machine.
_SUMS = frozenset(
    "num_examples rollouts_per_example time_ms avg_reward avg_metrics avg_error pass_at_k pass_all_k pass_threshold usage".split()
)
_MAPPED = frozenset("env env_id model sampling_args base_url tools state_columns path_to_save".split()) | set(_PARAMS)


@dataclass(slots=True)
class Run:
    """What is known of a run as a whole.

    Attributes:
        dataset: Environment.
        run_id: Folder of the run.
        model: Model as asked for.
        harness: Program of the agent.
        params: Sampling arguments as JSON text, without nulls.
        tools: Tool schemas as JSON text.
        columns: Columns of the rows that the user asked to keep; they are no reward functions.
        header: The metadata as it stands.
        metadata: What no column holds.
    """

    dataset: str
    run_id: str
    model: str | None = None
    harness: str | None = None
    params: str | None = None
    tools: str | None = None
    columns: frozenset[str] = frozenset()
    header: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)


def read_run(batch: Batch, unit: Unit) -> Run:
    """The run of a results file: its metadata, else the name of its folder `<env>--<model>`."""
    header = _metadata(batch, unit)
    config = {} if header else _config(batch, unit)
    parts = unit.package_id.split("/")[:-1]
    named = next((p for p in reversed(parts) if "--" in p), "")
    env, _, served = named.partition("--")
    known = text(header.get("env_id")) or text(header.get("env")) or text(obj(config.get("taskset")).get("id"))
    model = text(header.get("model")) or text(config.get("model"))
    if not known and env:
        detail = f"no {METADATA} beside the file names the environment; taken from the folder name {named!r}"
        batch.diagnose(
            "name_from_folder", detail, package_id=unit.package_id, source_uri=unit.package_id, severity="info"
        )
        if model is None and not config:
            model = served.replace("--", "/") or None
    sampling = obj(header.get("sampling_args")) or obj(config.get("sampling"))
    params = {k: header[k] for k in _PARAMS if header.get(k) is not None}
    params = redact(params | {k: v for k, v in sampling.items() if v not in (None, {}, [])})
    rest = {k: v for k, v in header.items() if k not in _MAPPED | _SUMS and v not in (None, {}, [])}
    rest = {k: v for k, v in rest.items() if not k.startswith("avg_")}
    host = urlsplit(text(header.get("base_url")) or "").hostname if _is_url(header.get("base_url")) else None
    return Run(
        dataset=known or env or "verifiers",
        run_id="/".join(parts) or unit.package_id,
        model=model,
        harness=text(obj(config.get("harness")).get("id")),
        params=dump_json(params) if params else None,
        tools=tool_schemas(header.get("tools")),
        columns=frozenset(c for c in items(header.get("state_columns")) if isinstance(c, str)),
        header=header,
        metadata=redact(rest | ({"host": host} if host else {})),
    )


def _is_url(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(urlsplit(value).hostname)
    except ValueError:
        return False


def _metadata(batch: Batch, unit: Unit) -> Row:
    data = _companion(batch, unit, METADATA)
    if data is None:
        return {}
    document, problems = load_json(data)
    report(batch, unit, problems, METADATA)
    if isinstance(document, dict):
        # Other programs keep a metadata.json too.
        return document if "env" in document or "env_id" in document else {}
    if not problems:
        detail = f"{METADATA} is {type(document).__name__}, expected an object; not used"
        batch.diagnose("bad_companion", detail, package_id=unit.package_id, source_uri=METADATA)
    return {}


def _config(batch: Batch, unit: Unit) -> Row:
    data = _companion(batch, unit, CONFIG)
    try:
        return tomllib.loads((data or b"").decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        detail = f"{CONFIG} is no TOML; not used"
        batch.diagnose("bad_companion", detail, package_id=unit.package_id, source_uri=CONFIG)
        return {}


def _companion(batch: Batch, unit: Unit, name: str) -> bytes | None:
    path = unit.path.with_name(name)
    if not path.is_file() or path.is_symlink():
        return None
    try:
        data, raw = read_bytes(path, _LIMIT)
    except UnreadableError as error:
        batch.diagnose(error.code, f"{name}: {error.detail}", package_id=unit.package_id, source_uri=name)
        return None
    add_evidence(batch, unit.package_id, name, "trace", size=len(raw), digest=PREFIX + sha256_hex(raw))
    return data


def check_header(
    batch: Batch, unit: Unit, run: Run, n_rows: int, rewards: list[float], metrics: dict[str, list[float]]
) -> None:
    """Compare the counts and means of the metadata with the rows; the rows decide (R15)."""
    examples, rollouts = (whole(run.header.get(k)) for k in ("num_examples", "rollouts_per_example"))
    wanted = examples * rollouts if examples is not None and rollouts is not None and examples > 0 else None
    wrong = []
    if wanted is not None and wanted != n_rows:
        wrong.append(f"{wanted} rows ({examples} examples x {rollouts} rollouts), the file has {n_rows}")
    said = {k.removeprefix("avg_"): v for k, v in run.header.items() if k.startswith("avg_")}
    said |= obj(said.pop("metrics", None))
    real = metrics | {"reward": rewards}
    for name, value in said.items():
        told, values = amount(value) if name != "reward" else finite(value), real.get(name)
        if told is None or not values:
            continue
        mean = sum(values) / len(values)
        if abs(mean - told) > _TOLERANCE * max(1.0, abs(told)):
            wrong.append(f"mean {name} {told:.6g}, the rows give {mean:.6g}")
    if wrong:
        detail = f"{METADATA} says {'; '.join(wrong[:6])}; the rows decide"
        batch.diagnose("header_mismatch", detail, package_id=unit.package_id, source_uri=METADATA)
