"""Proving that a transcript is the child it should be, and looking for children whose call was lost. Reads only."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sessions.providers.base import (
    Candidate,
    ChildSearch,
    ForkRequest,
    Json,
    MatchStrength,
    Rejected,
    TurnBinding,
    TurnMapping,
    Unreadable,
)
from sessions.providers.claude.chain import Branch, canonical
from sessions.providers.claude.local_store import renamed
from sessions.providers.claude.registry_files import OwnerState, owner_of
from sessions.providers.claude.roles import RowRole
from sessions.providers.claude.transcripts import MARKER_PREFIX, Scan, at_ms, chain_uuid, iter_lines, parse, scan

SEARCH_METHOD = "announced id, title marker and forkedFrom rows in the source's project folder"
MAX_LISTED_FILES = 100

# What the SDK gives its own value in a child, or takes away; everything else must be equal.
_REWRITTEN = frozenset(
    {
        "uuid",
        "parentUuid",
        "logicalParentUuid",
        "sessionId",
        "isSidechain",
        "forkedFrom",
        "teamName",
        "agentName",
        "slug",
        "sourceToolAssistantUUID",
        "compactMetadata",
    }
)
_SOURCE_FILES = re.compile(rb'(/[^"\s\\]+/tool-results/[^"\s\\]+)')
_CLOCK_SLACK_MS = 2000


class WrongChild(Exception):
    """The transcript is not the child that was asked for. The message says in which respect."""


@dataclass(slots=True)
class Proof:
    """What a comparison of source and child established."""

    names: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    permission_mode: str = ""
    files: list[str] = field(default_factory=list)
    title: str = ""
    made_ms: int = 0


@dataclass(slots=True)
class _Links:
    """Parents and compaction ids, compared once every row's new name is known."""

    parents: list[tuple[str, Any, str | None]] = field(default_factory=list)
    compactions: list[tuple[Any, Any]] = field(default_factory=list)
    skipped: dict[str, str | None] = field(default_factory=dict)


def _chain_rows(path: Path) -> Iterator[tuple[bytes, Json]]:
    with path.open("rb") as file:
        stop = file.seek(0, os.SEEK_END)
        for line in iter_lines(file, 0, stop):
            data = parse(line.raw)
            if data is not None:
                yield line.raw, data


def _source_rows(path: Path, checkpoint: str, links: _Links) -> Iterator[tuple[bytes, Json]]:
    """The rows a fork at ``checkpoint`` has to hold. Progress rows carry the chain on but are not copied."""
    for raw, data in _chain_rows(path):
        uuid = chain_uuid(data)
        if not uuid or data.get("isSidechain"):
            continue
        if data["type"] == "progress":
            links.skipped[uuid] = data.get("parentUuid")
        else:
            yield raw, data
        if uuid == checkpoint:
            return


def prove_child(source: Path, source_id: str, child: Path, child_id: str, checkpoint: str) -> Proof:
    """Compare the whole inherited part, row by row. Raises :class:`WrongChild`, ``OSError``."""
    proof, links = Proof(), _Links()
    own_rows = 0
    pointing: list[bytes] = []
    source_rows = _source_rows(source, checkpoint, links)
    last_uuid = ""
    for _, data in _chain_rows(child):
        if data.get("type") == "custom-title" and data.get("uuid") and not proof.title:
            proof.title, proof.made_ms = str(data.get("customTitle") or ""), at_ms(data)
        if not chain_uuid(data):
            continue
        if not isinstance(data.get("forkedFrom"), dict):
            own_rows += 1
            continue
        if own_rows:
            raise WrongChild("it has inherited rows after rows of its own")
        original = next(source_rows, None)
        if original is None:
            raise WrongChild("it goes beyond the chosen turn")
        _compare(original[1], data, source_id, child_id, checkpoint, proof, links)
        if b"/tool-results/" in original[0]:
            pointing.append(original[0])
        last_uuid = str(original[1]["uuid"])
        proof.rows += 1
    if last_uuid != checkpoint:
        raise WrongChild("it ends before the chosen turn")
    _compare_links(proof, links)
    if not proof.title:
        raise WrongChild("its last row is missing, so it was not written whole")
    if not own_rows and not ends_with_newline(child):
        raise WrongChild("it ends inside a row")
    proof.files = _listed_files(pointing)
    return proof


def _compare(
    original: Json, copied: Json, source_id: str, child_id: str, checkpoint: str, proof: Proof, links: _Links
) -> None:
    place = proof.rows + 1
    uuid = original["uuid"]
    if copied["forkedFrom"] != {"sessionId": source_id, "messageUuid": uuid}:
        raise WrongChild(f"row {place} does not name row {place} of the source as its origin")
    if copied.get("sessionId") != child_id:
        raise WrongChild(f"row {place} belongs to another session")
    ignored = _REWRITTEN | {"timestamp"} if uuid == checkpoint else _REWRITTEN
    if _kept(original, ignored) != _kept(copied, ignored):
        raise WrongChild(f"row {place} differs from the source's")
    proof.names[uuid] = copied["uuid"]
    proof.permission_mode = str(original.get("permissionMode") or proof.permission_mode)
    links.parents.append((copied["uuid"], copied.get("parentUuid"), original.get("parentUuid")))
    if original.get("logicalParentUuid"):
        links.parents.append((copied["uuid"], copied.get("logicalParentUuid"), original["logicalParentUuid"]))
    if "compactMetadata" in original:
        links.compactions.append((original["compactMetadata"], copied.get("compactMetadata")))


def _kept(data: Json, ignored: frozenset[str]) -> Json:
    return {key: value for key, value in data.items() if key not in ignored}


def _compare_links(proof: Proof, links: _Links) -> None:
    for uuid, parent, original in links.parents:
        while original in links.skipped:
            original = links.skipped[original]
        if parent != (proof.names.get(original) if original else None):
            raise WrongChild(f"row {uuid} hangs on another row than in the source")
    for original_metadata, metadata in links.compactions:
        if metadata != renamed(original_metadata, proof.names):
            raise WrongChild("messages kept by a compaction are missing from its context")


def _listed_files(raws: Sequence[bytes]) -> list[str]:
    found: dict[str, None] = {}
    for raw in raws:
        for match in _SOURCE_FILES.finditer(raw):
            found[match[1].decode("utf-8", "replace")] = None
    return list(found)[:MAX_LISTED_FILES]


def ends_with_newline(path: Path) -> bool:
    """Whether the last row was written whole. Raises ``OSError``."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return False
        file.seek(size - 1)
        return file.read(1) == b"\n"


def mapping_of(proof: Proof, prefix: Sequence[TurnBinding], turn: TurnBinding) -> list[TurnMapping]:
    """The child's binding of each inherited turn, the chosen one last. Turns that are not bound stay out."""
    mapping = []
    for binding in [*(each for each in prefix if each.provider_turn_id != turn.provider_turn_id), turn]:
        source_checkpoint = checkpoint_of(binding)
        if binding.provider_turn_id in proof.names and source_checkpoint in proof.names:
            data = {**binding.data, "checkpoint": proof.names[source_checkpoint]}
            target = TurnBinding(proof.names[binding.provider_turn_id], data)
            mapping.append(TurnMapping(binding.provider_turn_id, target))
    if not mapping or mapping[-1].source_provider_turn_id != turn.provider_turn_id:
        raise WrongChild("it does not hold the chosen turn")
    return mapping


def checkpoint_of(binding: TurnBinding) -> str:
    """The row to cut at, "" when the binding has none."""
    checkpoint = binding.data.get("checkpoint")
    return checkpoint if isinstance(checkpoint, str) else ""


# --------------------------------------------------------------------------------------------------------------------
# The source before the call


@dataclass(frozen=True, slots=True)
class Cut:
    """The source as a fork at one row would see it. ``end`` is the offset after that row."""

    scan: Scan
    branch: Branch
    end: int
    went_on: bool


def cut_at(source: Path, checkpoint: str) -> Cut | None:
    """Index the source and cut it at ``checkpoint`` as the native fork does, in file order. None when it is not there.

    ``went_on`` tells that the next row of the branch belongs to the same turn. Raises ``OSError``.
    """
    full = scan(source)
    place = full.rows.find(checkpoint)
    if place is None:
        return None
    row = full.rows[place]
    branch = canonical(full.rows).rows
    following = next((each for each in branch[branch.behind(row.end) :] if each.visible), None)
    went_on = following is not None and following.role in (RowRole.ASSISTANT, RowRole.RESULT)
    return Cut(full, canonical(full.rows, first=place + 1), row.end, went_on)


def ends_with(cut: Cut, binding: TurnBinding) -> bool:
    """Whether a child cut there would continue this very turn, and not another branch that was written beside it."""
    on_branch = {row.uuid for row in cut.branch.rows}
    return binding.provider_turn_id in on_branch and checkpoint_of(binding) in on_branch


def holds_prefix(cut: Cut, prefix: Sequence[TurnBinding]) -> bool:
    """Whether every turn begins on the branch, in order. A turn's last hidden row may have been left by a rewind."""
    place = {row.uuid: row.offset for row in cut.branch.rows}
    offsets = [place.get(binding.provider_turn_id, -1) for binding in prefix]
    on_disk = {row.uuid for row in cut.scan.rows}
    whole = all(checkpoint_of(binding) in on_disk for binding in prefix)
    return whole and -1 not in offsets and offsets == sorted(set(offsets))


def prefix_sha256(path: Path, end: int) -> str:
    """Digest of the first ``end`` bytes. Raises ``OSError``."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while end > 0:
            chunk = file.read(min(end, 1024 * 1024))
            if not chunk:
                break
            digest.update(chunk)
            end -= len(chunk)
    return digest.hexdigest()


def busy(config: Path, session_id: str) -> bool:
    """Whether a living process works on the session."""
    return owner_of(config, session_id).state is OwnerState.BUSY


# --------------------------------------------------------------------------------------------------------------------
# Children of a lost call


@dataclass(slots=True)
class Trace:
    """What one transcript says about where it came from. ``foreign``: it begins with a row that names no origin."""

    origin: str = ""
    cut: str = ""
    title: str = ""
    made_ms: int = 0
    inherited: int = 0
    own: int = 0
    foreign: bool = False


def find_children(request: ForkRequest, source: Path, since_ms: int, announced_id: str) -> ChildSearch:
    """Look at the announced child and at every transcript of the folder that changed since. Raises Unreadable.

    The id is announced before anything is written, so where no child lies under it, none was made, and where nothing
    was announced, nothing was written.
    """
    candidates = []
    for path in _changed_since(source.parent, since_ms, announced_id):
        candidate = _candidate(request, path, since_ms, announced_id)
        if candidate is not None:
            candidates.append(candidate)
    candidates.sort(key=lambda each: (each.strength is not MatchStrength.EXACT, each.created_at_ms))
    detail = (
        f"The call had announced {announced_id}." if announced_id else "The call had announced no child."
    ) + " A child is announced before it is written."
    return ChildSearch(SEARCH_METHOD, candidates, absence_proves=True, detail=detail)


def _changed_since(folder: Path, since_ms: int, announced_id: str) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise Unreadable("project_folder_missing", "The folder of the source's transcripts cannot be read.") from error
    for name in names:
        path = folder / name
        if not name.endswith(".jsonl"):
            continue
        try:
            recent = path.stat().st_mtime_ns // 1_000_000 >= since_ms - _CLOCK_SLACK_MS
        except OSError:
            continue
        if recent or path.stem == announced_id:
            yield path


def _candidate(request: ForkRequest, path: Path, since_ms: int, announced_id: str) -> Candidate | None:
    announced = bool(announced_id) and path.stem == announced_id
    try:
        trace = _trace(path)
        modified = path.stat().st_mtime_ns // 1_000_000
        whole = ends_with_newline(path) or trace.own > 0
    except OSError:
        return None
    ours = trace.origin == request.source.provider_session_id
    marked = ours and trace.title == request.marker
    at_point = ours and trace.cut == checkpoint_of(request.turn.binding)
    if not announced and not marked:
        elsewhere = trace.title.startswith(MARKER_PREFIX)
        early = trace.made_ms and trace.made_ms < since_ms - _CLOCK_SLACK_MS
        if not at_point or elsewhere or early:
            return None
    # Only our own call knew the announced id, so what lies there is its child, however little of it.
    strength = MatchStrength.EXACT if marked or announced else MatchStrength.LIKELY
    complete = bool(trace.title) and whole and at_point
    return Candidate(
        provider_session_id=path.stem,
        strength=strength,
        complete=complete,
        created_at_ms=trace.made_ms or modified,
        path=path,
        facts={
            "announced": announced,
            "marker": marked,
            "origin": trace.origin,
            "cutAt": trace.cut,
            "inheritedRows": trace.inherited,
            "ownRows": trace.own,
            "problem": "" if complete else _problem(trace, ours, whole),
        },
        torn=announced and not complete and _broken_off(request, trace),
    )


def _problem(trace: Trace, ours: bool, whole: bool) -> str:
    if trace.foreign or (trace.origin and not ours):
        return "It does not come from the source of this fork."
    if not trace.inherited:
        return "It holds no whole row."
    if not trace.title or not whole:
        return "It was not written whole: its last row is missing or torn."
    return "It does not end at the chosen turn."


def _broken_off(request: ForkRequest, trace: Trace) -> bool:
    """Nothing but rows of the source, and the last one that a whole child ends with is missing."""
    ours = trace.origin in ("", request.source.provider_session_id)
    return ours and not trace.foreign and trace.own == 0 and not trace.title


def remove_torn(request: ForkRequest, source: Path, candidate: Candidate) -> Json:
    """Delete the torn transcript under the announced id, durably. Raises :class:`Rejected`, ``OSError``."""
    path = candidate.path
    named = path is not None and path.parent == source.parent and path.stem == candidate.provider_session_id
    if path is None or not named or path == source or not candidate.facts.get("announced"):
        raise Rejected("not_torn", "This file does not lie under the id that this fork announced.")
    if not _broken_off(request, _trace(path)):
        raise Rejected("not_torn", "This transcript is not a broken-off child of this fork, so it is not touched.")
    content = path.read_bytes()
    path.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return {
        "childProviderSessionId": path.stem,
        "path": str(path),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _trace(path: Path) -> Trace:
    """Read one transcript; one whose first row names no origin is left at once. Raises ``OSError``."""
    trace = Trace()
    for _, data in _chain_rows(path):
        origin = data.get("forkedFrom")
        if chain_uuid(data) and isinstance(origin, dict):
            trace.origin = trace.origin or str(origin.get("sessionId") or "")
            trace.cut = str(origin.get("messageUuid") or "")
            trace.inherited += 1
        elif not trace.origin:
            trace.foreign = True
            break
        elif chain_uuid(data):
            trace.own += 1
        elif data.get("type") == "custom-title" and data.get("uuid") and not trace.title:
            trace.title, trace.made_ms = str(data.get("customTitle") or ""), at_ms(data)
    return trace
