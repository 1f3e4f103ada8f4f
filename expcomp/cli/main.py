"""Entry point: the verbs, exit codes, and how errors are shown."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from expcomp.cli import (
    compare,
    compiling,
    dataset,
    decide,
    decontaminate,
    env,
    env_build,
    env_export,
    experiment,
    exposure,
    gap,
    ledger,
    looking,
    pack,
    reading,
    report,
    schema,
    train,
    trainset,
)
from expcomp.errors import ExpcompError
from expcomp.version import __version__

EXIT_CODES = (
    "Exit codes: 0 fine; 1 findings (a check the user asked for); 2 wrong usage or configuration; 3 unreadable input; "
    "4 partial, something was skipped and the report says what."
)

app = typer.Typer(
    name="expcomp",
    help=f"Experience compiler: finished agent work in, typed and gated training rows out.\n\n{EXIT_CODES}",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"expcomp {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Experience compiler."""


compiling.register(app)
reading.register(app)
looking.register(app)
dataset.register(app)
decontaminate.register(app)
ledger.register(app)
compare.register(app)
gap.register(app)
report.register(app)
schema.register(app)
env.register(app)
env_build.register(env.env)
env_export.register(env.env)
pack.register(app)
exposure.register(app)
train.register(app)
trainset.register(app)
decide.register(app)
experiment.register(app)


READER_GONE = 141
"""As a shell says of a program that SIGPIPE ended."""


class Stopped(BaseException):
    """Ctrl-C. Not KeyboardInterrupt, which the command line library answers in its own words wherever it meets it."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped


def main() -> None:
    """Run the command line; errors of ours are one message on stderr and an exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    stdout = sys.stdout
    try:
        app()
    except Stopped:
        print("expcomp: stopped; nothing was published", file=sys.stderr)
        sys.exit(130)
    except ExpcompError as error:
        print(f"expcomp: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except SystemExit:
        # The command line library answers a reader that went away, as `| head` does, with 1, which means findings here; it leaves a
        # wrapped stdout behind.
        if sys.stdout is not stdout:
            sys.exit(READER_GONE)
        raise


if __name__ == "__main__":
    main()
