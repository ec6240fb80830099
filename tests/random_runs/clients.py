"""What callers do: ask, ask again, look, acknowledge, go on with their sessions, delete them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.urls import reverse

from forkhost.kit import clock
from operations import saga
from operations.choices import OperationStatus
from operations.models import Operation
from operations.points import ForkPoint, parse_point
from operations.projections import operation_json
from sessions import history, store
from sessions.choices import Visibility
from sessions.errors import StoreError
from sessions.models import Session
from sessions.providers.base import TurnBinding
from sessions.providers.crashpoints import CrashPoint
from sessions.store import NewEvent, TurnEnd, TurnStart
from tests.operations.support import LATEST
from tests.random_runs.model import Model
from tests.random_runs.places import Killed, Tenant, die, meanwhile

S = OperationStatus


class Clients(Model):
    """Requests, reads, and everything else members do."""

    def ask(self, number: int) -> None:
        """A new request, by either client, at any point of any session, forks of forks included."""
        tenant = self.tenant(number)
        session = self.one(self.living(tenant), number // 2)
        if session is not None:
            self._ask(tenant, self._request(tenant, session, number))

    def ask_and_die(self, number: int) -> None:
        """The web process is killed before or after the request is durable; the client comes again."""
        tenant = self.tenant(number)
        session = self.one(self.living(tenant), number // 2)
        if session is None:
            return
        request = self._request(tenant, session, number)
        before = Operation.objects.filter(workspace_id=tenant.workspace.pk).count()
        point = CrashPoint.AFTER_PREPARE if number % 2 else CrashPoint.BEFORE_PREPARE_COMMITS
        try:
            with meanwhile(point, die):
                saga.prepare(request)
        except Killed:
            made = Operation.objects.filter(workspace_id=tenant.workspace.pk).count() - before
            assert made == 0 if point is CrashPoint.BEFORE_PREPARE_COMMITS else made <= 1
            self.reached["killed while preparing"] += 1
        except saga.Refused as refused:
            self.refused(refused.code)
            return
        self._ask(tenant, request)

    def ask_again(self, number: int) -> None:
        """The same request once more, whatever became of it and of its sessions: the same operation, for ever."""
        known = list(self.requests.values())
        if not known:
            return
        # A fork is purged seldom, so its request is preferred.
        gone = [pair for pair in known if number % 3 and pair[1].target_session_id in self.purged] or known
        tenant, request = gone[number // 3 % len(gone)]
        answer = saga.prepare(request)
        assert answer.replayed
        assert answer.operation.pk == self.answers[tenant.workspace.pk, request.request_id]
        shown = operation_json(answer.operation)
        if answer.operation.status == S.COMMITTED:
            assert shown["session"]["id"] == str(answer.operation.target_session_id)
            assert shown["lineage"]["operationId"] == str(answer.operation.pk)
            if answer.operation.target_session_id in self.purged:
                self.reached["replayed after its child was purged"] += 1
        self.reached["replayed"] += 1

    def use_a_request_id_again(self, number: int) -> None:
        """For another fork: a conflict in its own workspace, and free in the other one."""
        known = list(self.requests.values())
        if not known:
            return
        owner, old = known[number % len(known)]
        tenant = self.tenant(number // 7)
        session = self.one(self.living(tenant), number)
        if session is None:
            return
        request = self._request(tenant, session, number, request_id=old.request_id)
        if tenant is owner or (tenant.workspace.pk, old.request_id) in self.answers:
            with pytest.raises(saga.Refused, match="used for a different fork"):
                saga.prepare(request)
            self.reached["request id in conflict"] += 1
        else:
            self._ask(tenant, request)
            self.reached["request id of another workspace"] += 1

    def use_a_target_again(self, number: int) -> None:
        """An id that is, was or will be a session's is refused; one of a failed fork is free."""
        tenant = self.tenant(number)
        session = self.one(self.living(tenant), number)
        targets = [*self.purged, *(operation.target_session_id for operation in self.operations())]
        if session is None or not targets:
            return
        target = targets[number % len(targets)]
        free = not Session.objects.filter(pk=target).exists() and target not in self.purged
        free = free and not Operation.objects.filter(target_session_id=target).exclude(status=S.FAILED).exists()
        request = self._request(tenant, session, number, target_session_id=target)
        if target == session.pk:
            return
        operation = self._ask(tenant, request)
        made = operation is not None and operation.request_id == request.request_id
        if made and operation.target_session_id == target:
            assert free
            self.reached["target of a failed fork used again"] += 1

    def ask_for_what_is_not_theirs(self, number: int) -> None:
        """Another workspace's session, or another client's private one: not found, in every way of asking."""
        tenant, other = self.tenants[number % 2], self.tenants[(number + 1) % 2]
        session = self.one(other.sessions(), number // 2)
        if session is None:
            return
        for workspace in (tenant.workspace, other.workspace):
            with pytest.raises(saga.Refused, match="not yours to see"):
                saga.prepare(self._request(tenant, session, number, workspace_id=workspace.pk))
        self.reached["stranger refused"] += 1

    def read_what_is_not_theirs(self, number: int) -> None:
        """Pages and API of another workspace's sessions and forks are not there."""
        tenant, other = self.tenants[number % 2], self.tenants[(number + 1) % 2]
        browser = tenant.browsers[number % len(tenant.browsers)]
        session = self.one(other.sessions(), number // 2)
        operation = self.one(self.operations(other), number // 2)
        addresses = []
        if session is not None:
            addresses += [reverse("sessions:detail", args=[session.pk]), self._api(other, "agent-sessions", session.pk)]
        if operation is not None:
            addresses += [
                reverse("operations:operation", args=[operation.pk]),
                self._api(other, "agent-session-fork-operations", operation.pk),
                self._api(tenant, "agent-session-fork-operations", operation.pk),
            ]
        if addresses:
            assert browser.get(addresses[number % len(addresses)]).status_code == 404
            self.reached["stranger read nothing"] += 1

    def acknowledge(self, number: int) -> None:
        """Of a committed fork, also after its sessions are gone; of no other; killed before it is durable at times."""
        operation = self.one(self.operations(self.tenant(number)), number // 2)
        if operation is None:
            return
        if operation.status != S.COMMITTED:
            with pytest.raises(saga.Refused, match="Only a committed fork"):
                saga.acknowledge(operation.pk, "user:x")
            return
        if number % 5 == 0 and operation.observed_at is None:
            try:
                with meanwhile(CrashPoint.BEFORE_ACKNOWLEDGE_COMMITS, die):
                    saga.acknowledge(operation.pk, "user:x")
            except Killed:
                operation.refresh_from_db(fields=("observed_at",))
                assert operation.observed_at is None
                self.reached["acknowledgement lost"] += 1
        assert saga.acknowledge(operation.pk, "user:x").observed_at is not None
        self.reached["acknowledged"] += 1
        if operation.target_session_id in self.purged or operation.source_session_id in self.purged:
            self.reached["acknowledged after a purge"] += 1

    # Their sessions --------------------------------------------------------------------------------------------------

    def a_session_goes_on(self, number: int) -> None:
        """A turn is added to a source or a fork."""
        tenant = self.tenant(number)
        session = self.one(self.living(tenant), number // 2)
        if session is None:
            return
        at, name = clock.now_ms(), f"turn-{session.turn_count + 1}-{uuid.uuid4().hex[:8]}"
        entries = [
            TurnStart(at, name, TurnBinding(name), model="m", effort="high"),
            NewEvent("message.user", at + 1, {"text": name}),
            *([TurnEnd(at + 2, "completed")] if number % 8 else []),
        ]
        self._try(lambda: store.append(session.pk, entries), "went on")

    def a_session_is_rewound(self, number: int) -> None:
        """Its end was taken back outside, and something else may follow."""
        tenant = self.tenant(number)
        session = self.one(self.living(tenant), number // 2)
        if session is not None and session.turn_count > 1:
            seq = max(1, session.last_seq - number % 6)
            self.histories.pop(session.pk, None)
            self._try(lambda: store.rewind(session.pk, seq), "rewound")

    def a_claim_is_opened(self, number: int) -> None:
        """Something unfinished stands on a session for a while."""
        session = self.one(self.living(self.tenant(number)), number // 2)
        if session is None:
            return
        opened = self.claims.pop(session.pk, None)
        if opened is not None:
            self._try(lambda: store.settle_claim(session.pk, opened), "claim settled")
        else:
            try:
                self.claims[session.pk] = store.open_claim(session.pk, "submit").pk
            except StoreError as error:
                self.refused(error.code)

    def a_session_is_hidden(self, number: int) -> None:
        """Or shown again, or kept to its maker."""
        session = self.one(self.tenant(number).sessions(), number // 2)
        if session is None:
            return
        if session.tombstoned_at is not None:
            self._try(lambda: store.restore(session.pk), "restored")
        elif number % 3 == 0:
            self._try(lambda: store.tombstone(session.pk), "hidden")
        elif number % 3 == 1:
            self._try(lambda: store.detach(session.pk, not session.detached), "detached")
        else:
            wanted = Visibility.WORKSPACE if session.visibility == Visibility.PRIVATE else Visibility.PRIVATE
            self._try(lambda: store.set_visibility(session.pk, wanted), "visibility changed")

    def a_session_is_purged(self, number: int) -> None:
        """A source or a fork goes for good, as far as nobody needs it."""
        tenant = self.tenant(number)
        everything = tenant.sessions()
        forks = [session for session in everything if session.fork_operation_id is not None]
        session = self.one(forks if forks and number % 3 else everything, number // 3)
        # Something to fork from stays.
        if session is None or len(everything) <= 2:
            return
        try:
            store.purge(session.pk)
        except StoreError as error:
            self.refused(error.code)
            return
        self.purged[session.pk] = None
        self.histories.pop(session.pk, None)
        self.reached["fork purged" if session.fork_operation_id else "source purged"] += 1
        waiting = self.operations(tenant, S.UNKNOWN)
        self.reached["purged while a fork of it is unknown"] += any(
            operation.source_session_id == session.pk for operation in waiting
        )

    # Helpers -----------------------------------------------------------------------------------------------------------

    def _request(self, tenant: Tenant, session: Session, number: int, **changes: Any) -> saga.PrepareRequest:
        user = tenant.clients[number % len(tenant.clients)]
        title = f"Own title {number}" if number % 7 == 0 else None
        values = {"user": user, "source_session_id": session.pk, "point": self._point(session, number), "title": title}
        return tenant.world.request(**{**values, **changes})

    def _point(self, session: Session, number: int) -> ForkPoint:
        ordinal = number % max(1, session.turn_count) + 1
        view = history.turn_by_ordinal(session, ordinal) if session.turn_count else None
        if view is None or number % 4 == 0:
            return LATEST
        if number % 4 == 1:
            return parse_point({"type": "atSeq", "seq": view.first_seq})
        return parse_point({"type": "throughTurn", "turnId": str(view.id)})

    def _ask(self, tenant: Tenant, request: saga.PrepareRequest) -> Operation | None:
        source = Session.objects.filter(pk=request.source_session_id).first()
        own = history.bindings_through(source, source.turn_count) if source is not None else []
        try:
            answer = saga.prepare(request)
        except saga.Refused as refused:
            self.refused(refused.code)
            return None
        key = (tenant.workspace.pk, request.request_id)
        if answer.replayed:
            self.reached["barrier"] += key not in self.answers and answer.operation.request_id != request.request_id
        else:
            depth = self.depths.get(request.source_session_id, 0) + 1
            self.depths[answer.operation.target_session_id] = depth
            self.reached["fork of a fork"] += depth > 1
            self.reached["fork of a fork of a fork"] += depth > 2
        self.frozen.setdefault(answer.operation.pk, [each.provider_turn_id for each in own])
        self.note(answer.operation.pk)
        self.requests.setdefault(key, (tenant, request))
        assert self.answers.setdefault(key, answer.operation.pk) == answer.operation.pk
        return answer.operation

    def _try(self, deed: Any, name: str) -> None:
        try:
            deed()
        except StoreError as error:
            self.refused(error.code)
        else:
            self.reached[name] += 1

    @staticmethod
    def _api(tenant: Tenant, kind: str, pk: uuid.UUID) -> str:
        return f"/v1/workspaces/{tenant.workspace.pk}/{kind}/{pk}"
