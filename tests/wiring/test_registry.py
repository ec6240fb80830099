"""Adapters are found by entry point, ours as any other's; a broken one is reported and harms nobody."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from sessions.providers import registry
from sessions.providers.registry import GROUP, UnknownProvider


class Fine:
    provider = "fine"


class Misnamed:
    provider = "other"


@pytest.fixture(autouse=True)
def module() -> Iterator[None]:
    """The adapters above, importable under a name."""
    holder = ModuleType("third_party_adapters")
    vars(holder).update(Fine=Fine, Misnamed=Misnamed)
    sys.modules[holder.__name__] = holder
    yield
    del sys.modules[holder.__name__]


def point(name: str, value: str) -> dict[str, EntryPoint]:
    return {name: EntryPoint(name, value, GROUP)}


def test_our_adapters_register_as_any_other() -> None:
    declared = tomllib.loads(Path("pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    assert set(declared) <= set(registry.found())
    assert registry.registry().broken == {}
    for provider in declared:
        assert registry.adapter(provider).provider == provider


def test_a_third_partys_adapter_is_loaded() -> None:
    found = registry.load(point("fine", "third_party_adapters:Fine"))
    assert isinstance(found.adapters["fine"], Fine)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("gone", "no_such_module:Adapter", "ModuleNotFoundError"),
        ("fine", "third_party_adapters:Missing", "AttributeError"),
        ("fine", "third_party_adapters:Misnamed", "'other'"),
    ],
)
def test_a_broken_adapter_is_reported_and_the_others_work(name: str, value: str, why: str) -> None:
    found = registry.load({**point(name, value), "ok": EntryPoint("fine", "third_party_adapters:Fine", GROUP)})
    assert why in found.broken[name]
    assert name not in found.adapters


def test_an_unknown_provider_is_a_typed_error() -> None:
    with pytest.raises(UnknownProvider, match="nobody"):
        registry.adapter("nobody")
