"""Which sessions a list shows; the same for pages and API."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db import connection
from django.db.models import BooleanField, F, Func, Q, Value
from django.forms import CharField

from sessions.choices import SessionKind
from sessions.models import Session
from sessions.payloads import plain
from sessions.querysets import SessionQuerySet

TEXT_LIMIT = 500
MOST_FEW = 300
LAST_CHARACTER = "\U0010ffff"


class _TextField(CharField):
    """Text as typed, with its spaces; what no column can hold finds nothing instead of being an error."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": TEXT_LIMIT, "strip": False, **kwargs})

    def to_python(self, value: Any) -> str:
        return plain(super().to_python(value) or "")


class TextFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Text of at most 500 characters."""

    field_class = _TextField


class SessionFilterSet(django_filters.FilterSet):  # type: ignore[misc]
    """``provider``: exactly. ``cwd``: that folder or one inside it. ``q`` is checked, and is for ``sessions.search``.

    ``kind``: roots unless it asks for sub-agents' lanes. An invalid form filters nothing, so check ``is_valid``.
    ``few`` says that the queryset is chosen by id already.
    """

    provider = TextFilter(field_name="provider")
    q = TextFilter(method="filter_words", label="Search")
    cwd = TextFilter(method="filter_folder", label="Working folder")
    kind = django_filters.ChoiceFilter(choices=SessionKind.choices, method="filter_kind", label="Kind")

    class Meta:
        model = Session
        fields = ("provider", "q", "cwd", "kind")

    def __init__(self, *args: Any, few: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.few = few

    def filter_queryset(self, queryset: SessionQuerySet) -> SessionQuerySet:
        """Roots, unless the form asks for something else."""
        if not self.form.cleaned_data.get("kind"):
            queryset = queryset.roots()
        filtered: SessionQuerySet = super().filter_queryset(queryset)
        return filtered

    def filter_kind(self, queryset: SessionQuerySet, name: str, value: str) -> SessionQuerySet:
        """Roots or lanes. That lanes have a parent is said too, because the index of lanes is about that."""
        lanes = {"parent_session_id__isnull": False} if value == SessionKind.CHILD else {}
        return queryset.filter(kind=value, **lanes)

    def filter_words(self, queryset: SessionQuerySet, name: str, value: str) -> SessionQuerySet:
        """Nothing here: ``sessions.search`` looks for words, before, and the form only says whether they can be."""
        return queryset

    def filter_folder(self, queryset: SessionQuerySet, name: str, value: str) -> SessionQuerySet:
        """That folder or one inside it."""
        folder = value.rstrip("/") or "/"
        within = Q(cwd=folder) | Q(cwd__startswith=folder if folder.endswith("/") else f"{folder}/")
        if self.few:
            return queryset.filter(within)
        # Newest first, a list of few among very many would look at all others, too; and a list of many would sort them.
        few = queryset.filter(_beginning(folder), within).order_by().values_list("pk", flat=True)[: MOST_FEW + 1]
        ids = list(few)
        return queryset.filter(pk__in=ids) if len(ids) <= MOST_FEW else queryset.filter(within)


def _beginning(folder: str) -> Q:
    """Compared byte for byte, as the index of folders is ordered; a statement planned once needs both bounds."""
    from_here, before = ("~>=~", "~<~") if connection.vendor == "postgresql" else (">=", "<")
    return Q(_compared(from_here, folder)) & Q(_compared(before, f"{folder}{LAST_CHARACTER}"))


def _compared(operator: str, text: str) -> Func:
    return Func(
        F("cwd"), Value(text), template="%(expressions)s", arg_joiner=f" {operator} ", output_field=BooleanField()
    )
