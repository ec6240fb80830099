"""Fork operations to look at, and the page on which an operator settles an unknown one. There is no "send again"."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from forkhost.kit import clock
from forkhost.kit.read_only import ReadOnlyAdmin, pretty
from operations.choices import OperationStatus
from operations.models import Evidence, Operation, OperationAudit, RequestAlias
from operations.pages.settle_form import SettleForm, settle
from operations.requests import Refused
from sessions.choices import MemberRole
from sessions.models import Membership

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

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
            return queryset.filter(models.Q(status=OperationStatus.UNKNOWN) | models.Q(needs_person=True))
        return queryset if chosen == "all" else queryset.filter(status=chosen)


@admin.register(Operation)
class OperationAdmin(ReadOnlyAdmin):
    """Forks, those that need a person first."""

    list_display = ("title", "status", "age", "provider", "resolved_ordinal", "error_code", "looks", "needs_person")
    list_filter = (NeedsReview, "provider", "contract")
    search_fields = ("=id", "=source_session_id", "=target_session_id", "request_id", "title")
    ordering = ("prepared_at",)
    change_form_template = "admin/operations/operation_change.html"
    readonly_fields = ("page", "evidence", "audit_trail", "receipt_json", "mapping_json", "binding_json", "frozen")
    exclude = ("snapshot", "result_session", "receipt", "target_mapping", "binding")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(pk__in=_operations(user))

    def get_queryset(self, request: HttpRequest) -> Rows:
        return super().get_queryset(request).defer(*LARGE)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.settle)
        return [path("<uuid:operation_id>/settle/", view, name="operations_operation_settle"), *super().get_urls()]

    def settle(self, request: HttpRequest, operation_id: Any) -> HttpResponse:
        """Decide about an unknown fork, by evidence and with a reason; one at a time."""
        operation = get_object_or_404(self.get_queryset(request), pk=operation_id)
        user = cast("User", request.user)
        role = {"workspace_id": operation.workspace_id, "user": user, "role": MemberRole.OPERATOR}
        if operation.status != OperationStatus.UNKNOWN or not Membership.objects.filter(**role).exists():
            raise Http404
        form = SettleForm(operation, request.POST or None)
        if request.method == "POST" and form.is_valid():
            try:
                said = settle(operation, form, user)
            except Refused as refused:
                messages.warning(request, refused.sentence)
            else:
                messages.success(request, said)
            return HttpResponseRedirect(reverse("admin:operations_operation_change", args=[operation.pk]))
        context = {**self.admin_site.each_context(request), "title": f"Settle: {operation.title}", "form": form}
        context |= {"operation": operation, "evidence": self.evidence(operation), "trail": self.audit_trail(operation)}
        return render(request, "admin/operations/settle.html", context)

    @admin.display(description="age", ordering="prepared_at")
    def age(self, operation: Operation) -> str:
        """How long it has been unknown, or since it was asked for."""
        since: dt.datetime = operation.unknown_since or operation.prepared_at
        hours, minutes = divmod(int((clock.now() - since).total_seconds()) // 60, 60)
        word = "unknown for" if operation.unknown_since else "asked for"
        spent = f"{hours // 24} d {hours % 24} h" if hours >= 24 else f"{hours} h {minutes} min"
        return f"{word} {spent}" if operation.unknown_since else f"{word} {spent} ago"

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
    search_fields = ("request_id", "=operation_id")

    def visible(self, rows: Rows, user: User | AnonymousUser) -> Rows:
        return rows.filter(operation_id__in=_operations(user))
