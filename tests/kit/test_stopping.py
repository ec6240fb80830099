"""SIGTERM asks; loops stop at the next good moment."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from forkhost.kit.stopping import StopFlag


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_raises_the_flag_and_calls_back_once(number: signal.Signals) -> None:
    called: list[str] = []
    with StopFlag() as stop:
        stop.on_request(lambda: called.append("now"))
        assert not stop.requested
        signal.raise_signal(number)
        assert stop.requested
        assert stop.wait(0)
        stop.request()
    assert called == ["now"]


def test_a_callback_that_comes_late_is_called_at_once() -> None:
    called: list[str] = []
    stop = StopFlag()
    stop.request()
    stop.on_request(lambda: called.append("now"))
    assert called == ["now"]


def test_the_signals_are_given_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with StopFlag():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_second_signal_ends_a_process_that_does_not_stop() -> None:
    code = (
        "from forkhost.kit.stopping import StopFlag\n"
        "import time\n"
        "with StopFlag() as stop:\n"
        "    print('up', flush=True)\n"
        "    stop.wait(60)\n"
        "    print('asked', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert process.stdout.readline() == "asked\n"
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM
