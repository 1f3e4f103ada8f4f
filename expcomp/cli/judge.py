"""`expcomp pack judge`: verdicts on rows, by the gates or by a model behind an endpoint."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.cli.options import Force, Json, Quiet
from expcomp.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from expcomp.packs.judge.mentor import MentorJudge

PARTIAL = 4
"""Exit code when rows are left without a verdict."""


def judge(
    compiled: Annotated[Path, typer.Argument(help="Output folder of a compile.")],
    family: Annotated[str, typer.Argument(help="Row family.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to publish; not needed with --dry-run.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(help="Base URL of a chat endpoint to send rows to; without it the gates judge.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model to ask for at the endpoint.")] = None,
    api_key_env: Annotated[str | None, typer.Option(help="Environment variable that holds the endpoint's key.")] = None,
    cache: Annotated[Path, typer.Option(help="File that keeps answers, so that none is asked for twice.")] = Path(
        "judge.sqlite"
    ),
    prompt: Annotated[
        Path | None, typer.Option(help="Text file with what to judge by; the form of the answer is added.")
    ] = None,
    endpoint_sampling: Annotated[
        bool, typer.Option("--endpoint-sampling", help="Send neither temperature 0 nor a limit of answer tokens.")
    ] = False,
    json_mode: Annotated[bool, typer.Option("--json-mode", help="Ask for response_format json_object.")] = False,
    rejected: Annotated[bool, typer.Option("--rejected", help="Judge rejected rows, too.")] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="The first rows only.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight at most.")] = 4,
    timeout: Annotated[float, typer.Option(help="Seconds without a byte after which a request is lost.")] = 60.0,
    retries: Annotated[int, typer.Option(min=0, help="Further requests for a row after a passing failure.")] = 4,
    max_wait: Annotated[
        float, typer.Option(min=0, help="Longest wait in seconds that the endpoint may ask for.")
    ] = 120.0,
    max_failures: Annotated[
        int, typer.Option(min=1, help="So many rows that fail one after another end the run.")
    ] = 10,
    max_calls: Annotated[int | None, typer.Option(min=0, help="Requests at most, retries counted.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=0, help="Begin no request after so many tokens.")] = None,
    max_usd: Annotated[
        float | None, typer.Option(min=0, help="Begin no request after this cost, by the prices.")
    ] = None,
    price_in: Annotated[float | None, typer.Option(min=0, help="US dollars for a million tokens read.")] = None,
    price_out: Annotated[float | None, typer.Option(min=0, help="US dollars for a million tokens written.")] = None,
    pii: Annotated[bool, typer.Option("--pii", help="Refuse rows with personal data, too.")] = False,
    ask_again: Annotated[
        bool, typer.Option("--ask-again", help="Ask again where a kept answer gives no verdict.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be asked; send nothing.")] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Judge the rows of a family, by the gates or by a model at an endpoint that you name.

    Redacted rows only are sent. Kept answers are not asked for again: a run that was stopped goes on where it ended.
    Exit code 4: rows are left without a verdict, and say why.

    Example: expcomp pack judge out training_example --endpoint http://127.0.0.1:8000/v1 --model mentor --out verdicts
    """
    from expcomp.io.documents import json_document, read_text
    from expcomp.packs.judge.folder import write_verdicts
    from expcomp.packs.judge.mentor import MentorJudge
    from expcomp.packs.judge.options import AskOptions
    from expcomp.packs.judge.port import Judge, judge_input
    from expcomp.packs.judge.prompt import TASK, Prompt
    from expcomp.packs.judge.rules import RuleJudge

    if (endpoint is None) != (model is None):
        msg = "--endpoint and --model go together: where to ask, and for which model"
        raise UsageError(msg)
    if out is None and not dry_run:
        msg = "name the folder for the verdicts with --out, or say --dry-run"
        raise UsageError(msg)
    if out is not None and out.exists() and not force:
        msg = f"{out} exists; choose another --out, or --force to replace it"  # before anything is paid for
        raise UsageError(msg)
    rows = judge_input(_rows(compiled, family, rejected=rejected, limit=limit))
    mentor: MentorJudge | None = None
    if endpoint is not None and model is not None:
        sampling: dict[str, Any] = {"temperature": None, "answer_tokens": None} if endpoint_sampling else {}
        mentor = MentorJudge(
            endpoint,
            model,
            cache=cache,
            prompt=Prompt(TASK if prompt is None else read_text(prompt, "--prompt"), json_mode=json_mode, **sampling),
            options=AskOptions(
                concurrency=concurrency,
                timeout=timeout,
                retries=retries,
                max_wait=max_wait,
                max_failures=max_failures,
                max_calls=max_calls,
                max_tokens=max_tokens,
                max_usd=max_usd,
                price_in=price_in,
                price_out=price_out,
                pii=pii,
                ask_again=ask_again,
            ),
            api_key=_key(api_key_env),
            show_progress=not quiet,
        )
    if dry_run:
        _plan(rows, mentor, as_json=as_json)
        return
    assert out is not None
    chosen: Judge = mentor or RuleJudge()
    made = chosen.score(rows)
    run = {} if mentor is None else mentor.budget.to_dict()
    about = {
        "family": family,
        "judge": "rules" if mentor is None else "model",
        "model": model,
        "prompt_digest": None if mentor is None else mentor.prompt.digest,
    }
    report = write_verdicts(made, out, about=about, run=run, force=force)
    if as_json:
        print(json_document(report | {"run": {"cached": int(made["cached"].sum()), **run}}), end="")
    elif not quiet:
        _show(report, run, int(made["cached"].sum()), out)
    if report["errors"]:
        raise typer.Exit(PARTIAL)


def _rows(compiled: Path, family: str, *, rejected: bool, limit: int | None) -> pl.DataFrame:
    import polars as pl

    from expcomp.compiler.compilation import open_compilation
    from expcomp.io.nearest import nearest

    compilation = open_compilation(compiled)
    if family not in list(compilation.rows):
        msg = (
            f"there is no family '{family}'; known are {', '.join(compilation.rows)}{nearest(family, compilation.rows)}"
        )
        raise UsageError(msg)
    frame = compilation.rows[family]
    if rejected:
        frame = pl.concat([frame, compilation.rejected[family]])
    return frame if limit is None else frame.head(limit)


def _key(name: str | None) -> str | None:
    if name is None:
        return None
    value = os.environ.get(name)
    if not value:
        msg = f"--api-key-env {name}: there is no such variable in the environment, or it is empty"
        raise UsageError(msg)
    return value


def _plan(rows: pl.DataFrame, mentor: MentorJudge | None, *, as_json: bool) -> None:
    from expcomp.io.documents import json_document

    plan = {"rows": rows.height, "missing": 0} if mentor is None else mentor.plan(rows)
    if as_json:
        print(json_document(plan), end="")
        return
    print(", ".join(f"{n:,} {name}" for name, n in plan.items()))


def _show(report: dict[str, Any], run: dict[str, Any], cached: int, out: Path) -> None:
    said = ", ".join(f"{n:,} {verdict}" for verdict, n in report["verdicts"].items())
    print(f"{report['rows']:,} rows: {said or 'no verdict'}")
    for error, n in report["errors"].items():
        print(f"  without a verdict: {n:,} {error}")
    if run:
        cost = "" if run["usd"] is None else f", {run['usd']:.4f} US dollars"
        tokens = run["prompt_tokens"] + run["completion_tokens"]
        print(f"{run['calls']:,} calls, {cached:,} rows from kept answers, {tokens:,} tokens{cost}")
        if run["stopped"]:
            print(f"stopped early: {run['stopped']['detail']}")
    print(f"wrote {out}")
