"""What every page shows the same way: times, sizes, icons, the theme."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import template
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from forkhost.kit import clock

register = template.Library()

THEMES = ("system", "light", "dark")
THEME_COOKIE = "forkhost_theme"
SHORTCUTS_COOKIE = "forkhost_shortcuts"
SHORTCUTS_OFF = "off"

MINUTE, HOUR, DAY = 60, 3600, 86400
KIBI = 1024


@register.simple_tag
def icon(name: str) -> SafeString:
    """A symbol of ``templates/icons.html``, hidden from screen readers: the words stand beside it."""
    return format_html('<svg class="icon" aria-hidden="true" focusable="false"><use href="#i-{}"></use></svg>', name)


@register.simple_tag(takes_context=True)
def theme(context: dict[str, Any]) -> str:
    """The reader's choice, from the cookie: ``system``, ``light`` or ``dark``."""
    request: HttpRequest | None = context.get("request")
    chosen = request.COOKIES.get(THEME_COOKIE, "") if request else ""
    return chosen if chosen in THEMES else THEMES[0]


@register.simple_tag(takes_context=True)
def shortcuts(context: dict[str, Any]) -> bool:
    """Whether single keys act; on unless the reader switched them off."""
    request: HttpRequest | None = context.get("request")
    return request is None or request.COOKIES.get(SHORTCUTS_COOKIE) != SHORTCUTS_OFF


def as_datetime(value: dt.datetime | int | None) -> dt.datetime | None:
    """An aware time from one or from Unix milliseconds; None where there is none (or beyond year 9999)."""
    if value is None or isinstance(value, dt.datetime):
        return value
    try:
        return clock.from_ms(value)
    except (OverflowError, ValueError):
        return None


@register.filter
def clock_time(value: dt.datetime | int | None) -> SafeString | str:
    """The absolute time to the minute as ``<time>``; the module shows it in the reader's zone."""
    return _absolute(value, "clock", "%Y-%m-%d %H:%M")


@register.filter
def exact_time(value: dt.datetime | int | None) -> SafeString | str:
    """The absolute time to the second."""
    return _absolute(value, "exact", "%Y-%m-%d %H:%M:%S")


def _absolute(value: dt.datetime | int | None, kind: str, shape: str) -> SafeString | str:
    at = as_datetime(value)
    if at is None:
        return "time not recorded"
    at = at.astimezone(dt.UTC)
    return _time(at, kind, f"{at.strftime(shape)} UTC")


@register.filter
def ago(value: dt.datetime | int | None) -> SafeString | str:
    """How long ago, with the absolute time as title."""
    at = as_datetime(value)
    if at is None:
        return "never"
    at = at.astimezone(dt.UTC)
    return _time(at, "ago", _ago(at, timezone.now()))


def _time(at: dt.datetime, kind: str, words: str) -> SafeString:
    """The element; the page's module fills it anew by ``kind``."""
    return format_html(
        '<time datetime="{}" title="{} UTC" data-time="{}">{}</time>',
        at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        at.strftime("%Y-%m-%d %H:%M:%S"),
        kind,
        words,
    )


def _ago(at: dt.datetime, now: dt.datetime) -> str:
    seconds = (now - at).total_seconds()
    if seconds < MINUTE:
        return "just now"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min ago"
    if seconds < DAY:
        return f"{int(seconds // HOUR)} h ago"
    if seconds < 2 * DAY:
        return "yesterday"
    if seconds < 14 * DAY:
        return f"{int(seconds // DAY)} days ago"
    return at.strftime("%-d %b %Y")


@register.filter
def took(start: int | None, end: int | None) -> str:
    """The time between two Unix milliseconds: ``0.4 s``, ``12 s``, ``3 min 5 s``, ``2 h 10 min``."""
    if start is None or end is None or end < start:
        return ""
    seconds = (end - start) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min {int(seconds % MINUTE)} s"
    return f"{int(seconds // HOUR)} h {int(seconds % HOUR // MINUTE)} min"


@register.filter
def size(count: int | None) -> str:
    """Bytes or characters for people: ``812 B``, ``4.2 kB``, ``3.0 MB``."""
    value = float(count or 0)
    if value < KIBI:
        return f"{value:.0f} B"
    for unit in ("kB", "MB", "GB"):
        value /= KIBI
        if value < KIBI:
            return f"{value:.1f} {unit}"
    return f"{value / KIBI:.1f} TB"


@register.filter
def count(number: int, words: str) -> str:
    """``3 turns``; ``words`` is ``singular,plural``."""
    singular, plural = words.split(",")
    return f"{number:,} {singular if number == 1 else plural}".replace(",", " ")


@register.filter
def short(value: object) -> str:
    """The first eight characters of an id."""
    return str(value)[:8]
