"""The permanent page of an operation's receipt."""

from __future__ import annotations

import json
import uuid
from typing import cast

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from operations import receipts
from operations.models import Evidence, Operation, OperationAudit
from operations.pages import presentation

TEXT_LIMIT = 100_000


@never_cache
@require_safe
def receipt(request: HttpRequest, operation_id: uuid.UUID) -> HttpResponse:
    """What was asked, done, seen and decided."""
    visible = Operation.objects.visible_to(cast("User", request.user)).defer("snapshot", "result_session")
    operation = get_object_or_404(visible, pk=operation_id)
    acts = list(OperationAudit.objects.filter(operation_id=operation.pk).order_by("sequence"))
    whole = receipts.receipt_json(operation)
    ids = {"workspace_id": operation.workspace_id, "operation_id": operation.pk}
    context = {
        "nav": "forks",
        "operation": operation,
        "state": presentation.state_of(operation),
        "receipt": whole,
        "settlement": receipts.settlement_words(acts),
        "acts": acts,
        "evidence": Evidence.objects.filter(operation_id=operation.pk).order_by("id"),
        "text": json.dumps(whole, indent=2)[:TEXT_LIMIT],
        "json_url": reverse("operations_api:receipt", kwargs=ids),
    }
    return render(request, "operations/receipt.html", context)
