"""Which trees join which requests, by definition: compares every orphan with every holder; shares no code with the SQL."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tests.oracle.assembly import Seen, Trace

SKEW = 10**9
OPEN = 3600 * 10**9  # a span without an end; the random ones have one
# Orphans of these layers, holders of that layer (request spans too), only by keys. `cache` orphans are stage spans.
ROUNDS = [
    ({"client"}, "gateway", True, False),
    ({"router", "engine", "cache"}, "gateway", True, False),
    ({"engine", "cache"}, "router", False, False),
    ({"engine"}, "engine", False, True),
    ({"cache"}, "engine", False, False),
]
Place = tuple[str, str]  # trace, span


def place(span: Seen) -> Place:
    return span.trace, span.id


def bare(name: str) -> str:
    return re.sub(r"^(chatcmpl|cmpl)-", "", name)


def shortened(names: Iterable[str]) -> list[str]:
    return [short for name in names if (short := re.sub(r"-([0-9]{1,3}|[0-9a-f]{8})$", "", name)) not in (name, "")]


def forms(span: Seen) -> list[set[str]]:
    """Ids as an orphan has them, the most literal first."""
    shorter = shortened(map(bare, span.names))
    keys = {f"key {span.key}"} if span.key else set()
    return [{*span.names, *map(bare, span.names)} | keys, set(shorter), set(shortened(shorter))]


def held(span: Seen) -> set[str]:
    return forms(span)[0]


class Joining:
    """`spans` afterwards: with the traces and parents that they belong to; `ambiguous`: who stays alone."""

    def __init__(self, spans: Sequence[Seen]) -> None:
        self.spans = list(spans)
        self.ambiguous: set[Place] = set()
        waiting = [one for one in spans if self.orphan(one)]
        for layers, holder, requests, by_key in ROUNDS:
            asking = [one for one in waiting if self.layer(one) in layers and (one.key or not by_key)]
            done = self.round(asking, holder, requests, by_key)
            waiting = [one for one in waiting if place(one) not in done]

    def stored(self) -> dict[Place, Seen]:
        return {place(one): one for one in self.spans}

    def above(self, span: Seen) -> Iterator[Seen]:
        """Up to the top; ends in a circle."""
        stored, visited = self.stored(), {span.id}
        while (up := stored.get((span.trace, span.parent))) is not None and up.id not in visited:
            visited.add(up.id)
            yield up
            span = up

    def circles(self, span: Seen) -> bool:
        last = [span, *self.above(span)][-1]
        return (last.trace, last.parent) in self.stored()

    def layer(self, span: Seen) -> str:
        return "cache" if span.role == "stage" else span.layer

    def orphan(self, span: Seen) -> bool:
        if span.principal != "platform" or not (span.names or span.key):
            return False
        if span.role == "stage":
            return span.parent == ""
        above = any(one.role in ("request", "inference") and one.principal == "platform" for one in self.above(span))
        return span.role == "inference" and span.layer != "gateway" and not above and not self.circles(span)

    def holders(self, orphan: Seen, layer: str, requests: bool, by_key: bool) -> list[tuple[int, Seen]]:
        found = []
        for one in self.spans:
            kind = (one.role == "request" and requests) or (one.role == "inference" and one.layer == layer)
            form = next(
                (n for n, ids in enumerate(forms(orphan)) if {id for id in ids if id.startswith("key ") or not by_key} & held(one)), -1
            )
            outer, inner = (orphan, one) if self.layer(orphan) == "client" else (one, orphan)
            in_time = outer.start - SKEW <= inner.start <= outer.end + SKEW
            earlier = not by_key or (one.start, place(one)) < (orphan.start, place(orphan))
            model = not one.model or not orphan.model or one.model == orphan.model
            if one.principal == "platform" and kind and form >= 0 and in_time and earlier and model and place(one) != place(orphan):
                found.append((form, one))
        return found

    def request_of(self, holder: Seen) -> Seen:
        """The request of the platform that a holder belongs to, else itself."""
        return next((one for one in [holder, *self.above(holder)] if one.role == "request" and one.principal == "platform"), holder)

    def round(self, asking: Sequence[Seen], layer: str, requests: bool, by_key: bool) -> set[Place]:
        """Who is done with asking, for good or bad."""
        matches = {place(one): self.holders(one, layer, requests, by_key) for one in asking}
        matches = {at: found for at, found in matches.items() if found}
        targets: dict[Place, Place] = {}
        for one in asking:
            found = matches.get(place(one))
            if not found or any(one in self.above(holder) or one == holder for _, holder in found):
                continue
            target = self.target(one, found)
            if target is None:
                self.ambiguous.add(place(one))
            else:
                targets[place(one)] = target
        clients = [target for at, target in targets.items() if self.stored()[at].layer == "client"]
        for at, target in list(targets.items()):
            if self.stored()[at].layer == "client" and clients.count(target) > 1:
                self.ambiguous.add(at)
                del targets[at]
        self.move(targets, set(matches))
        return set(matches)

    def target(self, orphan: Seen, found: list[tuple[int, Seen]]) -> Place | None:
        literal = min(form for form, _ in found)
        holders = [one for form, one in found if form == literal]
        client = orphan.layer == "client"
        by_request = client or len({place(one) for _, one in found}) > 1
        owners = {place(self.request_of(one)) if by_request else place(one) for one in holders}
        if len(owners) > 1:
            return None
        (owner,) = owners
        around = {place(one) for one in holders if one.role == "inference" and one.start <= orphan.start <= one.end}
        return around.pop() if not client and len(around) == 1 else owner

    def move(self, targets: dict[Place, Place], tops: set[Place]) -> None:
        stored = self.stored()
        moves: list[tuple[Place, Seen, Seen]] = []  # for whose sake, before, after
        for at, (trace, span) in targets.items():
            client = stored[at].layer == "client"
            for one in self.spans:
                top = next((up for up in [one, *self.above(one)] if place(up) in tops), None)
                if top is not None and place(top) == at:
                    parent = one.parent if place(one) != at else "" if client else span
                    moves.append((at, one, replace(one, trace=trace, parent=parent)))
            if client:
                moves.append((at, stored[trace, span], replace(stored[trace, span], parent=at[1])))
        arrivals = [place(after) for _, _, after in moves]
        hindered = {
            at for at, before, after in moves
            if arrivals.count(place(after)) > 1
            or (before.trace != after.trace and place(after) in stored)
            or (place(before) == targets[at] and stored[at].layer == "client" and (before.trace, before.parent) in stored)
        }  # fmt: skip
        self.ambiguous |= hindered
        changed = {place(before): after for at, before, after in moves if at not in hindered}
        self.spans = [changed.get(place(one), one) for one in self.spans]


def traces(spans: Iterable[Seen]) -> dict[str, Trace]:
    found: dict[str, dict[str, Seen]] = {}
    for one in spans:
        found.setdefault(one.trace, {})[one.id] = one
    return {name: Trace(members) for name, members in found.items()}
