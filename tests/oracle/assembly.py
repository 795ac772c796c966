"""What assembly must say of one trace, by definition: walks parents one by one, cuts time at every boundary, shares no code with the SQL.

Slow on purpose. Covers which request and attempt a span belongs to, outcomes, and exclusive stage time; not prices, hints or objectives.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

LINE = ["gateway", "", "stream", "settle", "auth", "tokenize", "route", "schedule", "kv_cache", "prefill", "decode"]  # innermost last
NAMING = ["gateway", "router", "client", "engine"]  # whose span names an attempt
BILLING = ["gateway", "router", "engine", "client"]


@dataclass(frozen=True)
class Seen:
    """One span as its profile rule reads it; times in ns. `stage` of a request span is `gateway`."""

    id: str
    parent: str
    start: int
    end: int
    principal: str = "platform"
    role: str = "none"
    layer: str = ""
    stage: str = ""
    failed: bool = False
    tenant: str = ""
    status: int | None = None
    disconnected: bool = False
    output: int | None = None
    sibling: str = ""
    trace: str = ""
    names: tuple[str, ...] = ()
    key: str = ""
    model: str = ""
    worker: str = ""


@dataclass(frozen=True)
class Attempt:
    id: str
    outcome: str
    output: int | None


@dataclass(frozen=True)
class Request:
    tenant: str
    outcome: str
    foreign: bool
    e2e_ns: int
    stage_ns: Mapping[str, int]
    attempts: Sequence[Attempt]


@dataclass
class Trace:
    """The spans of one trace; ids are unique."""

    spans: Mapping[str, Seen]
    _roots: dict[str, str | None] = field(default_factory=dict)

    # Who is above whom

    def above(self, span: Seen) -> Iterable[Seen]:
        """Stored ancestors from the parent up; a circle is walked once."""
        visited = {span.id}
        at = span.parent
        while at in self.spans:
            yield self.spans[at]
            if at in visited:
                return
            visited.add(at)
            at = self.spans[at].parent

    def mark(self, span: Seen) -> Seen | None:
        """The nearest request or inference span above."""
        return next((one for one in self.above(span) if one.role in ("request", "inference")), None)

    def request_above(self, span: Seen, viewer: str) -> Seen | None:
        return next((one for one in self.above(span) if one.role == "request" and one.principal in ("platform", viewer)), None)

    def claim(self, request: Seen) -> str:
        """The tenant that the platform's spans name: the request span, else its inference spans by time."""
        named = [(0, request.start, request.id, request.tenant)] + [
            (1, one.start, one.id, one.tenant)
            for one in self.spans.values()
            if one.role == "inference" and one.principal == "platform" and self.request_above(one, "platform") == request
        ]
        return next((tenant for *_, tenant in sorted(named) if tenant), "")

    # Which request

    def gateway_root(self, span: Seen) -> Seen | None:
        """Only the platform's spans, or the request's own tenant's, may join."""
        request = self.request_above(span, span.principal)
        if request is None or request.principal == span.principal or self.may_join(span.principal, request):
            return request
        return None

    def may_join(self, principal: str, request: Seen) -> bool:
        """A tenant's span may join the platform's gateway request of that tenant; without a gateway span nobody vouches for the tenant."""
        ours = request.role == "request" and request.principal == "platform"
        return ours and principal.startswith("tenant/") and principal == f"tenant/{self.claim(request)}"

    def alone(self, span: Seen) -> bool:
        return span.role == "inference" and self.gateway_root(span) is None

    def top(self, span: Seen) -> Seen:
        """The outermost inference span that it may join, of those outside any gateway request; itself where that runs in a circle."""
        at, visited = span, {span.id}
        while True:
            mark = self.mark(at)
            if mark is None or mark == at or not self.alone(mark) or at.principal not in ("platform", mark.principal):
                return at
            if mark.id in visited:
                return span
            visited.add(mark.id)
            at = mark

    def island(self, span: Seen) -> Seen:
        """The first of the siblings that overlap, one by one, with this one."""
        if not span.sibling:
            return span
        alike = [
            one for one in self.spans.values() if (one.parent, one.principal, one.sibling) == (span.parent, span.principal, span.sibling)
        ]
        first: Seen | None = None
        reached = 0
        for one in sorted(alike, key=lambda one: (one.start, one.id)):
            if first is None or one.start >= reached:
                first = one
            reached = max(reached, one.end)
            if one == span:
                break
        assert first is not None
        return first

    def seen_around(self, top: Seen) -> set[str] | None:
        """Gateway requests that a client's own span, or one under it, is around; None: it is no such view."""
        around = {
            request.id
            for request in self.spans.values()
            if request.role == "request"
            for mark in [self.mark(request)]
            if mark is not None and self.alone(mark) and self.top(mark) == top
            and (mark.principal in ("platform", request.principal) or self.may_join(mark.principal, request))
        }  # fmt: skip
        return around or None

    def outer(self, span: Seen) -> bool:
        if not self.alone(span):
            return False
        around = self.seen_around(self.top(span))
        if around is None:
            return False
        request = self.spans[min(around)]
        return span.principal in ("platform", request.principal) or self.may_join(span.principal, request)

    def root(self, span: Seen) -> str | None:
        if span.id not in self._roots:
            self._roots[span.id] = self._root(span)
        return self._roots[span.id]

    def _root(self, span: Seen) -> str | None:
        if span.role == "request":
            return span.id
        if span.role == "inference":
            request = self.gateway_root(span)
            if request is not None:
                return request.id
            around = self.seen_around(self.top(span))
            if around is not None and self.outer(span):
                return min(around) if len(around) == 1 else None
            return self.island(self.top(span)).id
        mark = self.mark(span)
        if span.role != "stage" or mark is None or self.outer(mark) or self.root(mark) is None:
            return None
        root = self.spans[self.root(mark) or ""]
        if span.principal == "platform":
            return None if root.role == "request" and root.principal != "platform" else root.id
        return root.id if root.principal == span.principal or self.may_join(span.principal, root) else None

    # Which attempt

    def calls(self, root: str) -> list[Seen]:
        """Inference spans of a request that show an attempt: the leaves of each layer."""
        mine = [one for one in self.spans.values() if one.role == "inference" and not self.outer(one) and self.root(one) == root]
        return [
            one for one in mine
            if not any(one.layer == inner.layer and one in self.around(inner) and not self.beside(one, inner) for inner in mine)
        ]  # fmt: skip

    def beside(self, one: Seen, other: Seen) -> bool:
        first = self.first_leg(one)
        return first is not None and first == self.first_leg(other)

    def first_view(self, span: Seen) -> Seen | None:
        """The first span of its layer that tells of the same answer; None: it alone does."""
        views = [
            one for one in self.spans.values()
            if (one.role, one.layer, one.principal, one.names) == ("inference", span.layer, span.principal, span.names)
            and not self.outer(one) and self.root(one) == self.root(span)
        ]  # fmt: skip
        first = min(views, key=lambda one: (one.start, one.id))
        views = [one for one in views if one.start < first.end or one == first]
        return first if span in views and len(views) > 1 else None

    def first_leg(self, span: Seen) -> Seen | None:
        """The first worker of the inference of which this one ran a part; None: it ran all of it."""
        if span.layer in ("gateway", "client") and span.names and not self.outer(span):
            return self.first_view(span)
        if span.layer != "engine" or self.outer(span):
            return None
        group = [
            one for one in self.spans.values()
            if (one.layer, one.key, one.principal) == ("engine", span.key, span.principal)
            and not self.outer(one) and self.root(one) == self.root(span) and (span.key or set(one.names) & set(span.names))
        ]  # fmt: skip
        group.sort(key=lambda one: (one.start, one.id))
        if span.key:
            return group[0] if len(group) > 1 else None
        for one, following in pairwise(group):
            handed = one.worker != following.worker and not one.failed and one.output in (0, 1) and following.start >= one.end
            if handed and span in (one, following):
                return one
        return None

    def around(self, span: Seen) -> list[Seen]:
        """Inference spans of the same request around it, the nearest first."""
        found: list[Seen] = []
        at = self.mark(span)
        while (
            at is not None
            and at.role == "inference"
            and at != span
            and at not in found
            and not self.outer(at)
            and self.root(at) == self.root(span)
        ):
            found.append(at)
            at = self.mark(at)
        return found

    def attempt(self, span: Seen, calls: Sequence[Seen]) -> str:
        first = self.first_leg(span)
        led = self.target(first, calls) if first is not None and first != span and first in calls else None
        target = self.target(span, calls) or led or first or span
        return self.island(self.first_leg(target) or target).id

    def target(self, span: Seen, calls: Sequence[Seen]) -> Seen | None:
        nested = self.nested(span, calls)
        if nested is not None or span.layer != "engine":
            return nested
        free = [one for one in calls if one.layer != "engine" and self.nested(one, calls) is None and self.first_leg(one) in (None, one)]
        around = [one for one in free if one.start <= span.start and one.end >= span.end]
        return around[0] if len(around) == 1 else None

    def nested(self, span: Seen, calls: Sequence[Seen]) -> Seen | None:
        outside = self.around(span)
        above = [(NAMING.index(one.layer), hops, one.id) for hops, one in enumerate(outside) if one in calls]
        above = [choice for choice in above if choice[0] < NAMING.index(span.layer)]
        if above:
            return self.spans[min(above)[2]]
        below = [(NAMING.index(one.layer), -one.start, one.id) for one in calls if span in self.around(one)]
        below = [choice for choice in below if choice[0] < NAMING.index(span.layer)]
        return self.spans[min(below)[2]] if below else None

    # What became of it

    def requests(self) -> dict[str, Request]:
        roots = {
            self.root(one) for one in self.spans.values() if one.role == "request" or (one.role == "inference" and not self.outer(one))
        }
        return {root: self.request(self.spans[root]) for root in roots if root is not None}

    def request(self, root: Seen) -> Request:
        calls = self.calls(root.id)
        groups: dict[str, list[Seen]] = {}
        for one in calls:
            groups.setdefault(self.attempt(one, calls), []).append(one)
        views = {id: sorted(group, key=lambda one: (NAMING.index(one.layer), one.start, one.id)) for id, group in groups.items()}
        order = sorted(views, key=lambda id: (min(one.start for one in views[id]), id))
        failed = {id: self.failed(views[id]) for id in order}
        good = [id for id in order if not failed[id]]
        outputs = {id: self.output(views[id], root, last=id == order[-1]) for id in order}
        outcome = self.outcome(root, bool(order), good, outputs)
        attempts = [
            Attempt(id, "failed" if failed[id] else "superseded" if id != good[-1] else outcome, outputs[id]) for id in order
        ]  # fmt: skip
        if self.left_alone(root, bool(order)):
            attempts.append(Attempt(root.id, "aborted", None))
        end = root.end if root.role == "request" else max([root.end, *(one.end for one in calls)])
        foreign = any(self.foreign(one) for one in calls)
        return Request(self.tenant(root, order, views), outcome, foreign, end - root.start, self.stages(root, end, calls), attempts)

    def foreign(self, span: Seen) -> bool:
        """It stands at the top although something is above it."""
        mark = self.mark(span)
        if not self.alone(span) or self.outer(span):
            return False
        return self.seen_around(self.top(span)) is not None or (self.top(span) == span and mark is not None and mark != span)

    def failed(self, views: Sequence[Seen]) -> bool:
        """The outermost layer's latest run says; siblings failed if all did."""
        outermost = [one for one in views if one.layer == views[0].layer]
        islands = {self.island(one).id for one in outermost}
        latest = max(islands, key=lambda id: (self.spans[id].start, id))
        return all(one.failed for one in outermost if self.island(one).id == latest)

    def output(self, views: Sequence[Seen], root: Seen, last: bool) -> int | None:
        outer = [one for one in self.spans.values() if last and self.outer(one) and self.root(one) == root.id]
        for group in (views, outer):
            for layer in BILLING:
                islands: dict[str, list[int]] = {}
                for one in group:
                    if one.layer == layer and one.output is not None:
                        islands.setdefault(self.island(one).id, []).append(one.output)
                if islands:
                    return max(sum(outputs) for outputs in islands.values())
        return None

    def outcome(self, root: Seen, tried: bool, good: Sequence[str], outputs: Mapping[str, int | None]) -> str:
        refused = root.role == "request" and (root.failed or (root.status or 0) >= 400)
        gone = self.gone(root)
        if self.left_alone(root, tried):
            return "aborted"
        if not tried:
            if 400 <= (root.status or 0) < 500:
                return "rejected"
            return "failed" if refused else "unmetered"
        if not good or (refused and not gone):
            return "failed"
        return "aborted" if gone else "unmetered" if outputs[good[-1]] is None else "useful"

    def gone(self, root: Seen) -> bool:
        """499 is what proxies write for a client that closed the connection."""
        return root.disconnected or (root.role == "request" and root.status == 499)

    def left_alone(self, root: Seen, tried: bool) -> bool:
        """Nobody shows a call, the client left, and the gateway neither refused nor broke: engines write no span of an aborted call."""
        return root.role == "request" and not tried and self.gone(root) and ((root.status or 0) < 400 or root.status == 499)

    def tenant(self, root: Seen, order: Sequence[str], views: Mapping[str, Sequence[Seen]]) -> str:
        if root.principal != "platform":
            return root.principal.removeprefix("tenant/")
        called = [one.tenant for id in order for one in views[id] if one.principal == "platform"]
        outer = [
            one for one in self.spans.values() if order and self.outer(one) and self.root(one) == root.id and one.principal == "platform"
        ]
        called += [one.tenant for one in sorted(outer, key=lambda one: (NAMING.index(one.layer), one.start, one.id))]
        return next((tenant for tenant in [root.tenant, *called] if tenant), "unknown")

    # Where the time went

    def stages(self, root: Seen, end: int, calls: Sequence[Seen]) -> dict[str, int]:
        drawn = [(one.stage, one.start, one.end) for one in self.spans.values() if one.role == "stage" and self.root(one) == root.id]
        if root.role == "request":
            drawn.append(("gateway", root.start, end))
        times = {stage: 0 for stage, _, _ in drawn} | {"other": 0}
        drawn += [("", one.start, one.end) for one in calls]
        cuts = sorted({root.start, end} | {cut for _, *both in drawn for cut in both if root.start < cut < end})
        for here, there in pairwise(cuts):
            active = [stage for stage, start, stop in drawn if start <= here and stop >= there]
            owner = max(active, key=LINE.index, default="")
            times[owner or "other"] += there - here
        return times
