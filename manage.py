#!/usr/bin/env python
"""forkhost's command line."""

from __future__ import annotations

import sys

from forkhost.command_line import main

if __name__ == "__main__":
    main(sys.argv)
