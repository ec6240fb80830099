"""Turns the Markdown of agents into HTML that cannot do anything.

Transcripts are hostile. markdown-it escapes raw HTML and refuses dangerous links; nh3 lets only listed tags, classes and
link schemes through afterwards, so that a fault in the first fence is caught by the second. Code is highlighted with
classes, never with styles.

A text is rendered once per content: results are kept by SHA-256 in memory, up to a size. A page that meets many texts
for the first time does not make its reader wait: :class:`Renderer` stops rendering when its time is used up and says so,
and the page shows the plain text, which the browser replaces when it scrolls into view.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from sessions.payloads import plain

RENDER_LIMIT = 60_000
"""Characters of one text that are rendered; the rest is on the record's own page."""

HIGHLIGHT_LIMIT = 12_000
CACHE_BYTES = 48 * 1024 * 1024
PAGE_SECONDS = 0.015

_TAGS = {
    "a", "blockquote", "br", "code", "div", "em", "h4", "hr", "li", "ol", "p", "pre", "s", "span", "strong", "sub",
    "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {
    "a": {"href", "title"},
    "ol": {"start"},
    "div": {"class"},
    "span": {"class"},
    "h4": {"class"},
    "code": {"class"},
    "pre": {"tabindex"},
}
_SCHEMES = {"http", "https", "mailto"}


class RenderedCache:
    """Rendered HTML by the SHA-256 of its text; the least recently used go first when it is full. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, str] = OrderedDict()

    def get(self, key: bytes) -> str | None:
        """The HTML, if it is still there."""
        with self._lock:
            html = self._entries.get(key)
            if html is not None:
                self._entries.move_to_end(key)
            return html

    def put(self, key: bytes, html: str) -> None:
        """Keep it; an entry larger than a tenth of the cache is not kept."""
        if len(html) > self.limit // 10:
            return
        with self._lock:
            self.held += len(html) - len(self._entries.pop(key, ""))
            self._entries[key] = html
            while self.held > self.limit:
                _, dropped = self._entries.popitem(last=False)
                self.held -= len(dropped)


cache = RenderedCache(CACHE_BYTES)


class Renderer:
    """Renders the texts of one page within ``seconds``; what is kept already costs nothing and always comes back."""

    def __init__(self, seconds: float = PAGE_SECONDS) -> None:
        self._left = seconds

    def __call__(self, text: str) -> SafeString | None:
        """The HTML, or None when the page's time is used up: show the plain text."""
        text = plain(text[:RENDER_LIMIT])
        key = hashlib.sha256(text.encode()).digest()
        html = cache.get(key)
        if html is None:
            if self._left <= 0:
                return None
            started = time.perf_counter()
            html = markdown(text)
            cache.put(key, html)
            self._left -= time.perf_counter() - started
        return mark_safe(html)  # noqa: S308  it has just been through nh3


def markdown(text: str) -> str:
    """``text`` as clean HTML; not cached."""
    return nh3.clean(
        _MARKDOWN.render(text),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
        strip_comments=True,
    )


def _highlight(code: str, language: str, attrs: str) -> str:
    if not language or len(code) > HIGHLIGHT_LIMIT:
        return escape(code)
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return escape(code)
    html: str = highlight(code, lexer, HtmlFormatter(nowrap=True))
    return html


def _fence(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    words = tokens[index].info.split()
    code = _highlight(tokens[index].content, words[0] if words else "", "")
    return f'<pre tabindex="0"><code class="highlight">{code}</code></pre>\n'


def _code_block(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    return f'<pre tabindex="0"><code>{escape(tokens[index].content)}</code></pre>\n'


def _image(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """A remote picture would tell its server who reads this, so it becomes a link."""
    token = tokens[index]
    label = escape(token.content or "image")
    source = str(token.attrGet("src") or "")
    if not source.startswith(("http://", "https://")):
        return f"[{label}]"
    return f'<a href="{escape(source)}">[{label}]</a>'


def _heading_open(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    """Every heading of a transcript stands below the turn's own, which is the page's third level."""
    level = "level-1" if tokens[index].tag in ("h1", "h2") else "level-2"
    return f'<h4 class="{level}">'


def _heading_close(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    return "</h4>\n"


def _build() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 30}).enable(["table", "strikethrough"])
    rules: dict[str, Any] = {
        "fence": _fence,
        "code_block": _code_block,
        "image": _image,
        "heading_open": _heading_open,
        "heading_close": _heading_close,
    }
    for name, rule in rules.items():
        parser.add_render_rule(name, rule)
    return parser


_MARKDOWN = _build()
