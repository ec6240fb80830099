#!/usr/bin/env python3
"""forkhost's command line. Started with any Python, it goes on with the one that ``make`` has set up beside it."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

OWN = Path(__file__).resolve().parent / ".venv" / "bin" / "python"

if __name__ == "__main__":
    if importlib.util.find_spec("django") is None:
        # A Python inside an environment that lacks Django would start itself again and again.
        if not OWN.exists() or Path(sys.prefix) == OWN.parent.parent:
            sys.exit(
                "forkhost: what it needs is not installed here yet. `make setup-runtime` does that; so does `make up`."
            )
        os.execv(OWN, [str(OWN), *sys.argv])  # noqa: S606
    from forkhost.command_line import main

    main(sys.argv)
