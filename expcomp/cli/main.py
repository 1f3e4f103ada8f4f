"""Entry point: the verbs, exit codes, and how errors are shown."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated, TextIO

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
from expcomp.errors import ExpcompError, InternalError, OutputError
from expcomp.version import __version__

EXIT_CODES = (
    "Exit codes: 0 fine; 1 findings (a check the user asked for); 2 wrong usage or configuration; 3 unreadable input; "
    "4 partial, something could not be read and was left out, the report says what; 70 a fault of expcomp itself."
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
STOPPED = 130
"""As it says of one that Ctrl-C ended."""


class Stopped(BaseException):
    """Ctrl-C. Not KeyboardInterrupt, which the command line library answers in its own words wherever it meets it."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped


def main() -> None:
    """Run the command line; errors of ours are one message on stderr and an exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    stdout, crash = sys.stdout, None
    try:
        code = _run()
    except Exception as error:
        # Not 1, with which the interpreter would end: a script would take the crash for findings.
        code, crash = InternalError.exit_code, error
    lost = _lost(stdout) or _unwritten(crash)
    # The command line library answers a reader that went away, as `| head` does, with 1, too; it leaves a wrapped stdout behind.
    if sys.stdout is not stdout or (lost is not None and lost.errno == errno.EPIPE):
        code = READER_GONE
    elif lost is not None:
        print(f"expcomp: the output cannot be written: {lost.strerror}", file=sys.stderr)
        code = OutputError.exit_code
    elif crash is not None:
        traceback.print_exception(crash)
        print("expcomp: a fault of expcomp itself; please report it with the lines above", file=sys.stderr)
    sys.exit(code)


def _run() -> int | str | None:
    """The exit code of the verb."""
    try:
        app()
    except SystemExit as end:
        return end.code
    except Stopped:
        print("expcomp: stopped; nothing was published", file=sys.stderr)
        return STOPPED
    except ExpcompError as error:
        print(f"expcomp: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _lost(stdout: TextIO | None) -> OSError | None:
    """Why what was printed does not arrive, asked here: the interpreter, at its exit, would answer in its own words and code."""
    if stdout is None:  # closed by whoever started us
        return None
    try:
        stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        return error
    return None


def _unwritten(crash: Exception | None) -> OSError | None:
    """The error, if it is one of writing: those name no file. An unbuffered stdout raises it where something is printed."""
    found = isinstance(crash, OSError) and crash.filename is None and crash.errno in _FULL
    return crash if found else None  # type: ignore[return-value]


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)


if __name__ == "__main__":
    main()
