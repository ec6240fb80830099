"""Makes `.venv` hold what a lock file says, at once when it already does.

    python3 requirements/install.py runtime|dev

Standard library only, so that it runs on a machine that has nothing but Python. Ends with a sentence and exit code 1
when it cannot do its work.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"

# dev.txt is a superset of runtime.txt, pinned to the same versions.
SATISFIED_BY = {"runtime": ("runtime", "dev"), "dev": ("dev",)}


class CannotInstall(Exception):
    """Said to the person as it is."""


def main() -> int:
    """Install one set; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(SATISFIED_BY))
    name = parser.parse_args().name
    try:
        if is_current(name):
            return 0
        # Two makes at once must not fill the same environment.
        with (ROOT / ".venv.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_current(name):
                make_environment()
                install(name)
    except CannotInstall as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def is_current(name: str) -> bool:
    """Whether an earlier run installed what this lock file asks for."""
    if not PYTHON.exists():
        return False
    return any(stamp(each).is_file() and stamp(each).read_text() == key(each) for each in SATISFIED_BY[name])


def stamp(name: str) -> Path:
    """The file that remembers what was installed."""
    return VENV / f".installed-{name}"


def key(name: str) -> str:
    """What the environment depends on: the lock file, and the interpreter it was made with."""
    lock = (HERE / f"{name}.txt").read_bytes()
    return hashlib.sha256(lock).hexdigest() + " " + ".".join(map(str, sys.version_info[:3]))


def make_environment() -> None:
    """Make `.venv` unless one with this interpreter is there and works."""
    if sys.version_info < OLDEST:
        raise CannotInstall(
            f"forkhost needs Python {OLDEST[0]}.{OLDEST[1]} or newer, this is {sys.version.split()[0]}. "
            "Name another one: make setup PYTHON=python3.12"
        )
    if version_of(PYTHON) == sys.version.split()[0] and works(PYTHON, "-m", "pip", "--version"):
        return
    shutil.rmtree(VENV, ignore_errors=True)
    if works(Path(sys.executable), "-m", "venv", str(VENV)):
        return
    shutil.rmtree(VENV, ignore_errors=True)
    install_debian_venv()
    if not works(Path(sys.executable), "-m", "venv", str(VENV)):
        raise CannotInstall(f"{sys.executable} -m venv fails: install your system's package for Python's venv module.")


def install_debian_venv() -> None:
    """Debian ships Python without venv; add it when that is possible."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise CannotInstall("Python's venv module is missing. On Debian or Ubuntu: sudo apt-get install python3-venv")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-q", "-y", "python3-venv"]):
        if subprocess.run(command, env=environment, check=False).returncode:
            raise CannotInstall(f"{' '.join(command)} failed; see above.")


def install(name: str) -> None:
    """Install the locked set. Hashes are checked, and nothing that the lock does not name comes in."""
    for each in SATISFIED_BY:
        stamp(each).unlink(missing_ok=True)
    print(f"Installing {name} requirements into {VENV} ...", flush=True)
    command = [
        *(str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--require-hashes", "--no-deps", "--only-binary=:all:", "-r", str(HERE / f"{name}.txt")),
    ]
    # A constraint that is configured for the machine has no say over a complete lock.
    environment = {**os.environ, "PIP_CONSTRAINT": os.devnull, "PIP_REQUIRE_VIRTUALENV": "1"}
    if subprocess.run(command, env=environment, check=False).returncode:
        raise CannotInstall("The requirements could not be installed; see above. Is the package index reachable?")
    stamp(name).write_text(key(name))


def version_of(python: Path) -> str:
    """The version an interpreter says it has, "" when it does not run."""
    if not python.exists():
        return ""
    code = "import sys; print(sys.version.split()[0])"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def works(python: Path, *arguments: str) -> bool:
    """Whether a command of an interpreter succeeds."""
    return subprocess.run([str(python), *arguments], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    raise SystemExit(main())
