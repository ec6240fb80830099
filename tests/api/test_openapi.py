"""The API's description: served, committed, complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from django.test import Client

from operations.api import examples

SCHEMA = Path(__file__).resolve().parents[2] / "openapi.json"

OPERATIONS = {
    "acknowledgeFork",
    "answerInteraction",
    "appendEvents",
    "askInteraction",
    "createFork",
    "createSession",
    "deleteSession",
    "exportSession",
    "getFamily",
    "getForkOperation",
    "getSession",
    "listClaims",
    "listEvents",
    "listForkOperations",
    "listInteractions",
    "listRunners",
    "listSessions",
    "listTurns",
    "listWorkspaces",
    "openClaim",
    "search",
    "settleClaim",
    "updateSession",
}


@pytest.fixture
def document() -> dict[str, Any]:
    """What is committed."""
    loaded: dict[str, Any] = json.loads(SCHEMA.read_bytes())
    return loaded


def described(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in document["paths"].values() for operation in path.values()]


def test_what_is_served_is_what_is_committed(document: dict[str, Any]) -> None:
    response = Client().get("/v1/openapi.json")
    assert (response.status_code, response["Content-Type"].split(";")[0]) == (200, "application/vnd.oai.openapi+json")
    assert response.json() == document, "run: make openapi"


def test_every_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.1"
    names = [operation["operationId"] for operation in described(document)]
    assert len(names) == len(set(names))
    assert set(names) >= OPERATIONS, "a name that clients call is gone"


def test_every_failure_is_the_one_problem(document: dict[str, Any]) -> None:
    for operation in described(document):
        failures = {status: body for status, body in operation["responses"].items() if status >= "400"}
        assert {"401", "403"} <= set(failures), operation["operationId"]
        for status, body in failures.items():
            assert body["content"] == {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }, (operation["operationId"], status)


@pytest.mark.parametrize("name", ["ACCEPTED", "COMMITTED", "FAILED", "UNKNOWN"])
def test_the_example_of_each_state_is_an_operation(document: dict[str, Any], name: str) -> None:
    shown = json.dumps(document["paths"])
    example = getattr(examples, name)
    assert json.dumps(example) in shown
    schema = {"$ref": "#/components/schemas/Operation", "components": document["components"]}
    jsonschema_rs.validator_for(schema).validate(example)
    assert set(example) == set(document["components"]["schemas"]["Operation"]["properties"])


def test_the_example_of_each_point_is_a_fork_body(document: dict[str, Any]) -> None:
    schema = {"$ref": "#/components/schemas/ForkBody", "components": document["components"]}
    validator = jsonschema_rs.validator_for(schema)
    for example in examples.FORK_EXAMPLES:
        validator.validate(example.value)
