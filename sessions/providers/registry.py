"""Finds the installed adapters.

Adapters register under the entry-point group ``forkhost.providers``, ours included, so that a third party's adapter is
found the same way. Running from a checkout that was never installed as a package, ours are read from pyproject.toml.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import cast

from sessions.providers.base import Adapter

GROUP = "forkhost.providers"
CHECKOUT = Path(__file__).resolve().parent.parent.parent / "pyproject.toml"


class UnknownProvider(LookupError):
    """No installed adapter is registered under this name, or it could not be loaded."""

    def __init__(self, provider: str) -> None:
        super().__init__(f"no adapter is installed for the provider {provider!r}")
        self.provider = provider


@dataclass(frozen=True, slots=True)
class Registry:
    """What was found. ``broken`` maps the names of adapters that could not be loaded to a sentence saying why."""

    adapters: Mapping[str, Adapter]
    broken: Mapping[str, str] = field(default_factory=dict)


def adapters() -> Mapping[str, Adapter]:
    """Every adapter that could be loaded, by provider, in the order of their names. Loaded once a process."""
    return registry().adapters


def adapter(provider: str) -> Adapter:
    """The adapter of one provider. Raises :class:`UnknownProvider`."""
    try:
        return adapters()[provider]
    except KeyError:
        raise UnknownProvider(provider) from None


@functools.cache
def registry() -> Registry:
    """Load every registered adapter; one that cannot be loaded is reported in ``broken``, never fatal."""
    return load(found())


def load(points: Mapping[str, EntryPoint]) -> Registry:
    """Make one instance of each adapter class."""
    loaded: dict[str, Adapter] = {}
    broken: dict[str, str] = {}
    for name, point in sorted(points.items()):
        try:
            instance = cast("Adapter", point.load()())
            if instance.provider != name:
                raise ValueError(f"it calls itself {instance.provider!r}")
        # Whatever a third party's module does while it is imported must not take the application down.
        except Exception as error:
            broken[name] = f"The adapter {point.value} cannot be loaded: {type(error).__name__}: {error}"
        else:
            loaded[name] = instance
    return Registry(MappingProxyType(loaded), MappingProxyType(broken))


def found() -> Mapping[str, EntryPoint]:
    """The registered entry points by name; an installed one wins over the checkout's."""
    points = {point.name: point for point in _of_checkout()}
    points.update({point.name: point for point in entry_points(group=GROUP)})
    return points


def _of_checkout() -> Iterator[EntryPoint]:
    if not CHECKOUT.is_file():
        return
    declared = tomllib.loads(CHECKOUT.read_text(encoding="utf-8"))["project"]["entry-points"][GROUP]
    for name, value in declared.items():
        yield EntryPoint(name, value, GROUP)
