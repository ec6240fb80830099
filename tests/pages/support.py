"""Looking at pages as text."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

from django.urls import reverse

BLOCKS = frozenset({"article", "dd", "details", "div", "dt", "h1", "h2", "h3", "h4", "li", "p", "pre", "summary", "td"})


class _Reader(HTMLParser):
    """Collects what a person could read and what a browser could run."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style", "title"):
            self._hidden += 1
        if tag in BLOCKS:
            self.words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style", "title"):
            self._hidden -= 1

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data)


def html(response: Any) -> str:
    """The page's source."""
    text: str = response.content.decode()
    return text


def words(response: Any) -> str:
    """What a person reads, each run of white space as one space."""
    reader = _Reader()
    reader.feed(html(response))
    return " ".join("".join(reader.words).split())


def tags(response: Any, name: str) -> list[dict[str, str | None]]:
    """The attributes of every element with this name."""
    reader = _Reader()
    reader.feed(html(response))
    return [attrs for tag, attrs in reader.tags if tag == name]


def all_tags(response: Any) -> list[tuple[str, dict[str, str | None]]]:
    """Every element with its attributes."""
    reader = _Reader()
    reader.feed(html(response))
    return reader.tags


def links(response: Any) -> list[str]:
    """Where the page leads."""
    return [attrs.get("href") or "" for attrs in tags(response, "a")]


def hidden_fields(response: Any) -> dict[str, str]:
    """The hidden fields of the page's main form, the CSRF token and the header's forms left out."""
    source = html(response)
    form = source[source.index("data-fork-form") :]
    found = re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)"', form)
    return {name: unescape(value) for name, value in found if name != "csrfmiddlewaretoken"}


def session_page(session: Any, **query: Any) -> str:
    """A session's address."""
    return reverse("sessions:detail", args=[session.pk], query=query or None)


def fork_page(session: Any, **query: Any) -> str:
    """The address that asks for a fork."""
    return reverse("operations:new_fork", args=[session.pk], query=query or None)


def operation_page(operation: Any) -> str:
    """An operation's address."""
    return reverse("operations:operation", args=[operation.pk])
