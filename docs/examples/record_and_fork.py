"""Records turns of an agent of one's own, forks at a turn, and goes on in both. Python 3.11 and nothing else.

FORKHOST_TOKEN=... python3 record_and_fork.py http://127.0.0.1:8000
"""

import json
import os
import sys
import urllib.request
import uuid

BASE, TOKEN = sys.argv[1].rstrip("/") + "/v1", os.environ["FORKHOST_TOKEN"]


def call(method: str, path: str, body: object = None) -> dict:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "Prefer": "wait=10"}
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(BASE + path, data, headers, method=method)) as answer:
        return json.load(answer)


def agent(history: list[dict], prompt: str) -> str:
    """Your agent. This one counts how many answers it remembers."""
    return f"{prompt}: I remember {sum(event['kind'] == 'message.assistant' for event in history)} answers."


def run_turn(session: str, prompt: str) -> int:
    """One turn; its events are sent in one request, which may be sent again. The seq at which it ends."""
    history = call("GET", f"{session}/events?limit=1000")["items"]
    said = [{"kind": "turn.start", "prompt": prompt}, {"kind": "message.user", "payload": {"text": prompt}}]
    said += [{"kind": "message.assistant", "payload": {"text": agent(history, prompt)}}]
    said += [{"kind": "turn.end", "outcome": "completed", "usage": {"outputTokens": 12}}]
    return call("POST", f"{session}/events", {"expectedLastSeq": len(history), "events": said})["lastSeq"]


sessions = f"/workspaces/{call('GET', '/workspaces')['items'][0]['id']}/agent-sessions"
source, child = str(uuid.uuid4()), str(uuid.uuid4())
call("POST", sessions, {"id": source, "title": "Two ways"})
ends = [run_turn(f"{sessions}/{source}", prompt) for prompt in ("plan", "build")]
# Both ids are ours: after a lost answer, the same request finds the same fork.
request = {"requestId": f"try-{child}", "targetAgentSessionId": child, "point": {"type": "atSeq", "seq": ends[0]}}
fork = call("POST", f"{sessions}/{source}/fork", request)
while fork["status"] == "accepted":
    fork = call("POST", f"{sessions}/{source}/fork", request)
if fork["status"] != "committed":
    sys.exit(f"The fork is {fork['status']}: {fork['error']}")
for name, prompt in ((source, "polish"), (child, "build otherwise")):
    run_turn(f"{sessions}/{name}", prompt)
for name in (source, child):
    print(call("GET", f"{sessions}/{name}/events?limit=1000")["items"][-2]["payload"]["text"])
