"""Finds the native ``codex`` program and says which one it is.

The ``codex`` that npm installs is a script which starts the native program as its child: ending the script leaves the
native program alive. So the native file behind it is started, unless an override names a script without one.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

OVERRIDE = "FORKHOST_CODEX"
PROGRAM = "codex"

NATIVE_MAGIC: tuple[bytes, ...] = (
    b"\x7fELF",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"MZ",
)


@dataclass(frozen=True, slots=True)
class Executable:
    """A ``codex``: its resolved path, and size and mtime as they were when it was found.

    ``native`` is false for a script that somebody named in the override: what it will start tomorrow is not known.
    """

    path: Path
    size: int
    mtime_ns: int
    native: bool

    @property
    def argv(self) -> list[str]:
        # The feature would fetch a public list of plugins from the network at every start.
        return [str(self.path), "app-server", "-c", "features.plugins=false"]

    def fingerprint(self, *, version: str, cwd: Path, environment: Mapping[str, str]) -> str:
        """Digest over everything that decides what runs; ``version`` is what this very file said about itself."""
        facts = [
            self.argv,
            str(cwd),
            hashlib.sha256(_canonical(sorted(environment.items()))).hexdigest(),
            str(self.path),
            self.size,
            self.mtime_ns,
            version,
        ]
        return hashlib.sha256(_canonical(facts)).hexdigest()


def find_executable(environ: Mapping[str, str]) -> Executable | None:
    """The override when set, else the native file behind ``codex`` on ``PATH``, else the bundled one, else None."""
    override = environ.get(OVERRIDE, "")
    if override:
        named = Path(os.path.realpath(override))
        return _describe(native_program(named) or (named if os.access(named, os.X_OK) else None))
    on_path = shutil.which(PROGRAM, path=environ.get("PATH", os.defpath))
    native = native_program(Path(on_path)) if on_path else None
    return _describe(native or _bundled())


def native_program(found: Path) -> Path | None:
    """The native file that ``found`` is, or that the npm script ``found`` would start; None when there is none."""
    path = Path(os.path.realpath(found))
    if is_native(path):
        return path
    return next((candidate for candidate in _behind_script(path) if is_native(candidate)), None)


def is_native(path: Path) -> bool:
    """Whether ``path`` is a program of the machine's own format which may be executed."""
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError:
        return False
    return head.startswith(NATIVE_MAGIC) and os.access(path, os.X_OK)


def _behind_script(script: Path) -> Iterator[Path]:
    """Where npm packages keep the native program, beside or below the script's own package."""
    package = script.parent.parent
    roots = (package, *sorted(package.glob("node_modules/@openai/codex-*")), *sorted(package.parent.glob("codex-*")))
    for root in roots:
        yield from sorted(root.glob(f"vendor/*/bin/{PROGRAM}"))
        yield from sorted(root.glob(f"vendor/*/codex/{PROGRAM}"))


def _bundled() -> Path | None:
    try:
        module = importlib.import_module("codex_cli_bin")
        path = Path(module.bundled_codex_path())
    except (ImportError, AttributeError, OSError):
        return None
    return path if is_native(path) else None


def _describe(path: Path | None) -> Executable | None:
    if path is None:
        return None
    try:
        stat = path.stat()
    except OSError:
        return None
    return Executable(path, stat.st_size, stat.st_mtime_ns, is_native(path))


def _canonical(value: Sequence[object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
