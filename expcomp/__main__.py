"""`python -m expcomp`: the command line."""

from __future__ import annotations

from expcomp.cli.main import main

if __name__ == "__main__":
    main()
