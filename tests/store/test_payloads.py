"""Payloads come back as they were, whatever they hold; columns never refuse a text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions import history, payloads, store
from sessions.errors import PayloadRefused
from sessions.models import Workspace
from sessions.providers.base import TurnBinding
from tests.store.histories import fresh, hosted, imported

NASTY: dict[str, Any] = {
    "nul": "a\x00b",
    "surrogate": "a\ud800b\udfff",
    "pair": "😀",
    "huge": 123456789012345678901234567890123,
    "negative": -(2**70),
    "float": 1e300,
    "lines": "a\u2028b\u0085c\r\n",
    "\x00key": {"\ud800": [None, True, 0.1, ""]},
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_any_json_object_survives_as_ascii(payload: dict[str, Any]) -> None:
    text = payloads.canonical(payload)
    assert text.isascii()
    assert "\x00" not in text
    assert payloads.parse(text) == payload
    assert payloads.canonical(payloads.parse(text)) == text


def test_key_order_is_kept() -> None:
    assert payloads.canonical({"b": 1, "a": 2}) == '{"b":1,"a":2}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e400, object(), {1, 2}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(PayloadRefused):
        payloads.canonical({"value": value})


def test_what_is_nested_too_deeply_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(PayloadRefused):
        payloads.canonical({"deep": deep})


def test_a_list_is_no_payload() -> None:
    with pytest.raises(PayloadRefused):
        payloads.canonical([1])  # type: ignore[arg-type]


def test_nasty_payloads_go_through_the_database(workspace: Workspace) -> None:
    session = hosted(workspace, title="nul \x00 and \ud800")
    prompt = "p\x00\ud800" + "x" * 500
    binding = TurnBinding("t1", {"row": 1})
    store.append(
        session.pk,
        [
            store.TurnStart(1, prompt, binding, model="m\x00", effort="\udc00", payload=NASTY),
            store.NewEvent("tool.result", 2, NASTY),
            store.TurnEnd(3, "completed", usage={"note": "\x00\ud800", "tokens": 2**80}, payload=NASTY),
        ],
    )
    now = fresh(session)
    events = history.events(now)
    assert events[1].payload == NASTY
    assert {name: events[2].payload[name] for name in NASTY} == NASTY
    view = history.turns(now)[0]
    assert (len(view.prompt), view.model, view.effort) == (200, "m\ufffd", "\ufffd")
    assert view.usage["note"] == "\ufffd\ufffd"
    assert now.title == "nul \ufffd and \ufffd"


def test_many_nasty_payloads_go_through_the_fast_way_too(workspace: Workspace) -> None:
    session = hosted(workspace)
    store.append(session.pk, [store.NewEvent("context", n, {**NASTY, "n": n, "tab": "a\tb\\N"}) for n in range(60)])
    events = history.events(fresh(session))
    assert [event.payload for event in events] == [{**NASTY, "n": n, "tab": "a\tb\\N"} for n in range(60)]


@pytest.mark.parametrize("provider_id", ["a\x00b", "a\ud800b", "x" * 5000])
def test_a_provider_id_that_no_column_holds_leaves_the_turn_unbound(workspace: Workspace, provider_id: str) -> None:
    session = imported(workspace)
    store.append(session.pk, [store.TurnStart(1, "p", TurnBinding(provider_id)), store.TurnEnd(2, "completed")])
    view = history.turns(fresh(session))[0]
    assert (view.binding, view.binding_reason) == (None, "binding_unstorable")


def test_clipping_cuts_by_characters_and_says_so() -> None:
    assert payloads.clip("a" * 200, 200) == "a" * 200
    assert payloads.clip("a" * 201, 200) == "a" * 199 + "…"
    assert payloads.clip("\x00", 5) == "\ufffd"
