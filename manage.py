#!/usr/bin/env python
"""forkhost's command line."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run one management command with forkhost's settings."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "forkhost.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
