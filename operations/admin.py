"""Fork operations to look at, and the page on which an operator settles an unknown one. There is no "send again"."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin
from django.contrib.auth import get_user_model as user_model
from django.core.exceptions import PermissionDenied
from django.db import models
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from forkhost.kit import clock
from forkhost.kit.read_only import ReadOnlyAdmin, pretty
from operations.choices import EvidenceMethod, OperationStatus
from operations.console import rights, views
from operations.models import Evidence, Notification, Operation, OperationAudit, RequestAlias
from sessions.models import Runner

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

    from operations.querysets import OperationQuerySet

Rows = models.QuerySet[Any]
LARGE = ("snapshot", "result_session", "binding", "target_mapping", "receipt")


def _operations(user: User | AnonymousUser) -> Rows:
    return Operation.objects.visible_to(user).values("pk")


class NeedsReview(admin.SimpleListFilter):
    """What a person should look at comes first; everything else is one click away."""

    title = "what to show"
    parameter_name = "show"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("all", "All"), *OperationStatus.choices]

    def choices(self, changelist: Any) -> Any:
        yield {
            "selected": self.value() is None,
            "query_string": changelist.get_query_string(remove=[self.parameter_name]),
            "display": "Needs review",
        }
        for value, label in self.lookup_choices:
            yield {
                "selected": self.value() == value,
                "query_string": changelist.get_query_string({self.parameter_name: value}),
                "display": label,
            }

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        chosen = self.value()
        if chosen is None:
            return cast("OperationQuerySet", queryset).queue()
        return queryset if chosen == "all" else queryset.filter(status=chosen)


@admin.register(Operation)
class OperationAdmin(ReadOnlyAdmin):
    """Forks, those that need a person first. Each leads to its evidence and to what an operator can do about it."""

    list_display = (
        "shown_title",
        "age",
        "status",
        "source",
        "turn",
        "runner",
        "error_code",
        "last_look",
        "needs_person",
        "assigned_to",
    )
    list_display_links = None
    list_filter = (NeedsReview, "needs_person", "provider", "contract")
    search_fields = ("=id", "=source_session_id", "=target_session_id", "request_id", "title")
    actions = ("look_again",)
    change_form_template = "admin/operations/operation_change.html"
    readonly_fields = ("page", "evidence", "audit_trail", "receipt_json", "mapping_json", "binding_json", "frozen")
    exclude = ("snapshot", "result_session", "receipt", "target_mapping", "binding")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(pk__in=_operations(user))

    def get_queryset(self, request: HttpRequest) -> Rows:
        looks = Evidence.objects.filter(operation_id=OuterRef("pk"), method=EvidenceMethod.LOOKUP).order_by("-id")
        rows: Rows = (
            super()
            .get_queryset(request)
            .defer(*LARGE)
            .annotate(
                runner_name=Subquery(Runner.objects.filter(pk=OuterRef("runner_id")).values("name")[:1]),
                assignee=Subquery(user_model().objects.filter(pk=OuterRef("assigned_to_id")).values("username")[:1]),
                looked_at=Subquery(looks.values("at")[:1]),
            )
        )
        return rows

    def get_ordering(self, request: HttpRequest) -> Any:
        return (F("needs_person").desc(), Coalesce("unknown_since", "prepared_at").asc(), "pk")

    def has_settle_permission(self, request: HttpRequest) -> bool:
        """Who may use the list's action."""
        return request.user.has_perm(rights.PERMISSION)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST" and not self.has_settle_permission(request):
            raise PermissionDenied
        return super().changelist_view(request, extra_context)

    def get_urls(self) -> list[URLPattern]:
        def page(view: Any) -> Any:
            return self.admin_site.admin_view(partial(view, self))

        return [
            path("<uuid:operation_id>/settle/", page(views.card), name="operations_operation_settle"),
            path("<uuid:operation_id>/settle/record/", page(views.record), name="operations_operation_record"),
            path("<uuid:operation_id>/settle/<slug:name>/", page(views.act), name="operations_operation_verb"),
            *super().get_urls(),
        ]

    @admin.action(description="Look again at the selected forks", permissions=["settle"])
    def look_again(self, request: HttpRequest, rows: Rows) -> HttpResponse | None:
        """The one verb for several at once; it only reads."""
        return views.look_again_at(self, request, rows)

    @admin.display(description="fork", ordering="title")
    def shown_title(self, operation: Operation) -> SafeString:
        """The way to its evidence."""
        address = reverse("admin:operations_operation_settle", args=[operation.pk])
        return format_html('<a href="{}">{}</a>', address, operation.title[:120] or str(operation.pk))

    @admin.display(description="age", ordering="prepared_at")
    def age(self, operation: Operation) -> str:
        """How long it has been unknown, or since it was asked for."""
        since: dt.datetime = operation.unknown_since or operation.prepared_at
        hours, minutes = divmod(int((clock.now() - since).total_seconds()) // 60, 60)
        word = "unknown for" if operation.unknown_since else "asked for"
        spent = f"{hours // 24} d {hours % 24} h" if hours >= 24 else f"{hours} h {minutes} min"
        return f"{word} {spent}" if operation.unknown_since else f"{word} {spent} ago"

    @admin.display(description="source")
    def source(self, operation: Operation) -> SafeString:
        """The source's page."""
        address = reverse("sessions:detail", args=[operation.source_session_id])
        return format_html('<a href="{}">{}</a>', address, str(operation.source_session_id)[:8])

    @admin.display(description="turn", ordering="resolved_ordinal")
    def turn(self, operation: Operation) -> int | None:
        """Where it was cut."""
        return operation.resolved_ordinal

    @admin.display(description="runner")
    def runner(self, operation: Operation) -> str | None:
        """The machine that asked the agent, and looks."""
        name: str | None = getattr(operation, "runner_name", None)
        return name

    @admin.display(description="last look")
    def last_look(self, operation: Operation) -> dt.datetime | None:
        """When its runner looked last."""
        looked_at: dt.datetime | None = getattr(operation, "looked_at", None)
        return looked_at

    @admin.display(description="assigned to")
    def assigned_to(self, operation: Operation) -> str | None:
        """Who looks after it."""
        assignee: str | None = getattr(operation, "assignee", None)
        return assignee

    @admin.display(description="page")
    def page(self, operation: Operation) -> SafeString:
        """What its asker sees."""
        return format_html('<a href="{}">Its page</a>', reverse("operations:operation", args=[operation.pk]))

    @admin.display(description="evidence")
    def evidence(self, operation: Operation) -> SafeString:
        """What was read from the provider, newest first."""
        rows = Evidence.objects.filter(operation_id=operation.pk).order_by("-id")
        return pretty(
            [
                {
                    "at": row.at,
                    "method": row.get_method_display(),
                    "candidates": row.candidates,
                    "absenceProves": row.absence_proves,
                    "contradicts": row.contradicts,
                    "detail": row.detail,
                }
                for row in rows
            ]
        )

    @admin.display(description="audit trail")
    def audit_trail(self, operation: Operation) -> SafeString:
        """Every transition and act, in order."""
        rows = OperationAudit.objects.filter(operation_id=operation.pk).order_by("sequence")
        return pretty(
            [
                {
                    "sequence": row.sequence,
                    "at": row.at,
                    "act": row.get_reason_display(),
                    "from": row.from_status,
                    "to": row.to_status,
                    "actor": row.actor,
                    "detail": row.detail,
                }
                for row in rows
            ]
        )

    @admin.display(description="receipt")
    def receipt_json(self, operation: Operation) -> SafeString:
        """What the provider's call was answered with."""
        return pretty(operation.receipt)

    @admin.display(description="target mapping")
    def mapping_json(self, operation: Operation) -> SafeString:
        """The child's bindings."""
        return pretty(operation.target_mapping)

    @admin.display(description="binding")
    def binding_json(self, operation: Operation) -> SafeString:
        """The chosen turn's frozen binding."""
        return pretty(operation.binding)

    @admin.display(description="snapshot")
    def frozen(self, operation: Operation) -> SafeString:
        """What was frozen at prepare."""
        return pretty(operation.snapshot)


@admin.register(OperationAudit)
class OperationAuditAdmin(ReadOnlyAdmin):
    """Transitions and acts of all operations."""

    list_display = ("at", "operation_id", "sequence", "reason", "from_status", "to_status", "actor")
    list_filter = ("reason",)
    search_fields = ("=operation_id", "actor")
    readonly_fields = ("detail_json",)
    exclude = ("detail",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(operation_id__in=_operations(user))

    @admin.display(description="detail")
    def detail_json(self, row: OperationAudit) -> SafeString:
        """What exactly."""
        return pretty(row.detail)


@admin.register(Evidence)
class EvidenceAdmin(ReadOnlyAdmin):
    """What was read from providers about operations."""

    list_display = ("at", "operation_id", "method", "absence_proves", "contradicts")
    list_filter = ("method", "absence_proves", "contradicts")
    search_fields = ("=operation_id",)
    readonly_fields = ("candidates_json", "detail_json")
    exclude = ("candidates", "detail")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(operation_id__in=_operations(user))

    @admin.display(description="candidates")
    def candidates_json(self, row: Evidence) -> SafeString:
        """What may be the child."""
        return pretty(row.candidates)

    @admin.display(description="detail")
    def detail_json(self, row: Evidence) -> SafeString:
        """What exactly was seen."""
        return pretty(row.detail)


@admin.register(RequestAlias)
class RequestAliasAdmin(ReadOnlyAdmin):
    """Which request ids lead to which operations."""

    list_display = ("request_id", "operation_id", "created_at")
    search_fields = ("request_id",)

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(operation_id__in=_operations(user))


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    """Who was told about which fork, and what did not arrive."""

    list_display = (
        "created_at",
        "kind",
        "channel",
        "operation_id",
        "delivered_at",
        "given_up_at",
        "attempts",
        "error_text",
    )
    list_filter = ("kind", "channel", ("given_up_at", admin.EmptyFieldListFilter))
    search_fields = ("=operation_id",)
    exclude = ("lease_token", "lease_owner")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(operation_id__in=_operations(user))
