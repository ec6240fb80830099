"""Parts that cannot be kept running end the whole with a sentence, and take no other part with them."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from forkhost.kit.stopping import StopFlag
from forkhost.supervision import Part, PartFailed, keep_running
from tests.commands.conftest import alive


def part(name: str, code: str) -> Part:
    return Part(name, [sys.executable, "-c", code], dict(os.environ), cwd=str(Path.cwd()))


def test_a_part_that_ends_at_once_again_and_again_is_given_up() -> None:
    steady = part("steady part", "import time; time.sleep(600)")
    with pytest.raises(PartFailed, match=r"The broken part ended 3 times right after its start \(exit code 7\)\."):
        keep_running([steady, part("broken part", "raise SystemExit(7)")], StopFlag(), lambda: False, lambda: None)
    assert steady.process is not None
    assert not alive(steady.process.pid)


def test_ready_is_told_once_and_a_stop_ends_every_part() -> None:
    parts = [part("one", "import time; time.sleep(600)"), part("two", "import time; time.sleep(600)")]
    stop, told = StopFlag(), []

    def on_ready() -> None:
        told.append("ready")
        threading.Timer(0.5, stop.request).start()

    keep_running(parts, stop, lambda: True, on_ready)
    assert told == ["ready"]
    assert [one.process.returncode for one in parts if one.process] == [-15, -15]
