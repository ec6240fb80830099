"""What the tests need from the machine beside Python packages, installed where that is possible.

    python -m tests.machine      make sure that PostgreSQL and Chromium are there

Raises :class:`MissingProgram` with a sentence when something is missing and cannot be installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


class MissingProgram(Exception):
    """Said to the person as it is."""


def postgres_bin() -> Path:
    """The folder of the newest installed PostgreSQL server's programs; installs Debian's package when missing."""
    found = _find_postgres()
    if found is None:
        install("postgresql")
        found = _find_postgres()
    if found is None:
        raise MissingProgram("The tests run on PostgreSQL too, and none is installed (postgres and initdb are needed).")
    return found


def _find_postgres() -> Path | None:
    def version(folder: Path) -> int:
        digits = re.search(r"(\d+)", folder.parent.name)
        return int(digits.group(1)) if digits else 0

    candidates = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/opt/homebrew/opt").glob("postgresql*/bin")]
    if on_path := shutil.which("initdb"):
        candidates.append(Path(on_path).resolve().parent)
    complete = [folder for folder in candidates if (folder / "postgres").exists() and (folder / "initdb").exists()]
    return max(complete, key=version, default=None)


def chromium() -> Path:
    """The browser for the page tests; installs Debian's package when missing."""
    for attempt in range(2):
        for name in ("chromium", "chromium-browser", "google-chrome"):
            if found := shutil.which(name):
                return Path(found)
        if attempt == 0:
            install("chromium")
    raise MissingProgram("The page tests drive a Chromium, and none is installed: apt-get install chromium")


def install(package: str) -> None:
    """Install one of Debian's packages, or say who has to."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise MissingProgram(f"The tests need {package}. On Debian or Ubuntu: sudo apt-get install {package}")
    print(f"Installing {package} ...", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-qq", "-y", "--no-install-recommends", package],
    ):
        if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode:
            raise MissingProgram(f"{' '.join(command)} failed; see above.")


def main() -> int:
    """Make sure that everything is there; the exit code."""
    try:
        postgres_bin()
        chromium()
    except MissingProgram as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
