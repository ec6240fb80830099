"""What tests of the API share beside fixtures."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.test import Client

JSON = "application/json"


@dataclass(frozen=True)
class Caller:
    """Somebody who speaks JSON."""

    client: Client

    def get(self, path: str, /, headers: dict[str, str] | None = None, **query: Any) -> Any:
        """GET with a query string."""
        return self.client.get(path, query, headers=headers)

    def post(self, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """POST a JSON body."""
        return self.client.post(path, {} if body is None else body, content_type=JSON, headers=headers)

    def patch(self, path: str, body: Any) -> Any:
        """PATCH a JSON body."""
        return self.client.patch(path, body, content_type=JSON)

    def delete(self, path: str) -> Any:
        """DELETE without a body."""
        return self.client.delete(path)

    def send(self, method: str, path: str, raw: bytes, content_type: str = JSON) -> Any:
        """Any bytes under any content type."""
        return self.client.generic(method, path, raw, content_type=content_type)


def assert_problem(response: Any, status: int, code: str, *pointers: str) -> dict[str, Any]:
    """The response is a problem with this status and code, blaming exactly these fields; its body."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert (body["code"], body["status"]) == (code, status)
    assert {"type", "title", "detail"} <= set(body)
    assert sorted(error["pointer"] for error in body.get("errors", [])) == sorted(pointers)
    return body


def fork_body(point: Any = None, **members: Any) -> dict[str, Any]:
    """A fork request of its own: the whole conversation unless the point says otherwise."""
    ids = {"requestId": f"request {uuid.uuid4()}", "targetAgentSessionId": str(uuid.uuid4())}
    return {**ids, "point": point or {"type": "latestSettled"}, **members}
