"""The slow way to split a GPU's money, in plain Python: what pipeline/attribution/sql/money must agree with to the atom.

Loops over slots and attempts; `floor` follows the documented integer rounding, `exact` the formula in fractions without any rounding.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

HOUR_NS = 3_600_000_000_000
TOKENS_MAX = 2**24


@dataclass(frozen=True)
class Constants:
    flops_per_second: int
    bytes_per_second: int
    prefill_budget_tokens: int
    flop_per_token: int
    weight_bytes: int
    kv_bytes_per_token: int
    attention_flop_per_token: int = 0


@dataclass(frozen=True)
class Held:
    """A row of the inventory."""

    replica: str
    gpu: str
    gpus: int
    from_ns: int
    to_ns: int
    constants: Constants | None


@dataclass(frozen=True)
class Price:
    price_id: str
    gpu: str
    atoms_per_gpu_hour: int
    from_ns: int
    to_ns: int


@dataclass(frozen=True)
class Attempt:
    attempt_id: str
    replica: str
    started_ns: int
    ended_ns: int | None = None
    first_scheduled_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    legs: tuple[tuple[str, str, int, int], ...] = ()
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    recompute_tokens: int | None = None
    rejected_draft_tokens: int | None = None
    expected_hit_tokens: int | None = None
    best_hit_tokens: int | None = None
    delivered_tokens: int | None = None
    outcome: str = "useful"
    tenant: str = "t"
    model: str = "m"


@dataclass(frozen=True)
class Segment:
    replica: str
    from_ns: int
    to_ns: int
    price_id: str
    priced: bool
    atoms_per_hour: int
    constants: Constants | None

    def atoms(self, a: int, b: int) -> int:
        """Money of [a, b): the difference of a clock that starts with the segment."""
        return self.atoms_per_hour * (b - self.from_ns) // HOUR_NS - self.atoms_per_hour * (a - self.from_ns) // HOUR_NS


@dataclass
class Pool:
    capacity_ns: int = 0
    busy_ns: int = 0
    atoms: int = 0
    busy_atoms: int = 0


@dataclass
class Books:
    """pools: (window, replica, price_id, priced). ledger: (window, replica, attempt, class, tier) -> [busy ns, atoms].

    exact: (window, replica, attempt) -> atoms as a fraction, without rounding of weights or shares. savings: window -> [tokens, atoms].
    """

    pools: dict[tuple[int, str, str, bool], Pool] = field(default_factory=lambda: defaultdict(Pool))
    ledger: dict[tuple[int, str, str, str, str], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    exact: dict[tuple[int, str, str], Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    savings: dict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))


@dataclass(frozen=True)
class Piece:
    """A leg of an attempt inside one segment (None: the inventory does not know the replica then)."""

    attempt: Attempt
    leg_no: int
    leg: tuple[int, int, int]  # from, end of prefill, to
    before: tuple[int, int]  # ns of prefill and decode in earlier legs
    total: tuple[int, int]
    home: bool
    replica: str
    segment: Segment | None
    from_ns: int
    to_ns: int
    phases_known: bool


def allocate(
    attempts: Sequence[Attempt],
    inventory: Sequence[Held],
    prices: Sequence[Price],
    window_range: tuple[int, int],
    window_ns: int,
    slot_ns: int,
    max_attempt_ns: int,
) -> Books:
    from_ns, to_ns = window_range
    segments = [s for held in inventory for s in cut_by_price(held, prices)]
    books = Books()
    for segment in segments:
        for window in range(from_ns, to_ns, window_ns):
            a, b = max(window, segment.from_ns), min(window + window_ns, segment.to_ns)
            if a < b:
                pool = books.pools[window, segment.replica, segment.price_id, segment.priced]
                pool.capacity_ns += b - a
                pool.atoms += segment.atoms(a, b)
    cells: dict[tuple[str, int | None, int], list[Piece]] = defaultdict(list)
    for attempt in attempts:
        for piece in pieces_of(attempt, segments, from_ns, to_ns, max_attempt_ns):
            key = piece.segment.from_ns if piece.segment else None
            for slot in range(piece.from_ns // slot_ns, max(piece.to_ns - 1, piece.from_ns) // slot_ns + 1):
                cells[piece.replica, key, slot].append(piece)
            save(books, piece, window_ns)
    shares: dict[tuple[int, str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    paces = {key: pace_of(spans_of(pieces, key[2], slot_ns), slot_ns) for key, pieces in cells.items()}
    for (_, _, slot), pieces in cells.items():
        split_cell(books, shares, pieces, slot, slot_ns, window_ns, paces)
    by_id = {attempt.attempt_id: attempt for attempt in attempts}
    for (window, replica, attempt_id, tier), (ns, atoms) in shares.items():
        for name, part_ns, part_atoms in classes(by_id.get(attempt_id), ns, atoms):
            entry = books.ledger[window, replica, attempt_id, name, tier]
            entry[0] += part_ns
            entry[1] += part_atoms
    for (window, replica, _, _), pool in books.pools.items():
        if pool.atoms != pool.busy_atoms:
            books.ledger[window, replica, "", "idle", "none"][1] += pool.atoms - pool.busy_atoms
    return books


def cut_by_price(held: Held, prices: Sequence[Price]) -> list[Segment]:
    own = [p for p in prices if p.gpu == held.gpu]
    cuts = sorted({held.from_ns, held.to_ns, *(t for p in own for t in (p.from_ns, p.to_ns) if held.from_ns < t < held.to_ns)})
    found = []
    for a, b in pairwise(cuts):
        price = next((p for p in own if p.from_ns <= a and p.to_ns >= b), None)
        rate = price.atoms_per_gpu_hour * held.gpus if price else 0
        found.append(Segment(held.replica, a, b, price.price_id if price else "", price is not None, rate, held.constants))
    return found


def pieces_of(attempt: Attempt, segments: Sequence[Segment], from_ns: int, to_ns: int, max_attempt_ns: int) -> list[Piece]:
    output = min(attempt.output_tokens or 0, TOKENS_MAX)
    start_known = attempt.first_scheduled_ns is not None or bool(attempt.legs)
    if len(attempt.legs) > 1:
        spells = sorted((a, b, replica, phase) for replica, phase, a, b in attempt.legs)
        phases_known = all(phase in ("prefill", "decode") for *_, phase in spells)
    else:
        if not (start_known or attempt.first_token_ns is not None or attempt.last_token_ns is not None or output):
            return []
        leg = attempt.legs[0] if attempt.legs else ("", "", None, None)
        start = next(t for t in (attempt.first_scheduled_ns, leg[2], attempt.started_ns) if t is not None)
        end = next(t for t in (attempt.last_token_ns, leg[3], attempt.ended_ns, attempt.first_token_ns, start) if t is not None)
        spells = [(start, end, attempt.replica or leg[0], "")]
        phases_known = False
    phases_known = phases_known or (start_known and (attempt.first_token_ns is not None or output == 0))
    legs = []
    for a, b, _, phase in spells:
        b = min(max(a, b), a + max_attempt_ns)
        first_token = attempt.first_token_ns
        cut = a if phase == "decode" else b if phase == "prefill" or first_token is None else min(max(first_token, a), b)
        legs.append((a, cut, b))
    total = sum(c - a for a, c, _ in legs), sum(b - c for _, c, b in legs)
    home = next((n for n, spell in enumerate(spells) if spell[3] != "decode"), 0)
    pieces = []
    for n, ((a, cut, b), (_, _, replica, _)) in enumerate(zip(legs, spells, strict=True)):
        before = sum(c - f for f, c, _ in legs[:n]), sum(t - c for _, c, t in legs[:n])
        inside = max(a, from_ns), min(b, to_ns)
        if not replica or a >= to_ns or (b <= from_ns and not (a == b and a >= from_ns)):
            continue
        own = [s for s in segments if s.replica == replica]
        borders = sorted({*inside, *(t for s in own for t in (s.from_ns, s.to_ns) if inside[0] < t < inside[1])})
        for x, y in pairwise(borders) if len(borders) > 1 else [(a, a)]:
            segment = next((s for s in own if s.from_ns <= x < s.to_ns), None)
            pieces.append(Piece(attempt, n + 1, (a, cut, b), before, total, n == home, replica, segment, x, y, phases_known))
    return pieces


Divide = Callable[[int, int], Any]


def floor(a: Any, b: Any) -> int:
    return int(a) // int(b)


def uncached(attempt: Attempt) -> tuple[int, int]:
    """Input tokens that the cache had, and those that were prefilled."""
    context = min(attempt.input_tokens or 0, TOKENS_MAX)
    prefill = max(context - min(attempt.cached_tokens or 0, TOKENS_MAX), 0)
    return context - prefill, prefill


def prefilled_in(piece: Piece, a: int, b: int) -> tuple[int, int]:
    """Whole prefill tokens that are done at a and at b."""
    (start, cut, end), prefill = piece.leg, uncached(piece.attempt)[1]
    if piece.total[0]:
        return tuple(prefill * (piece.before[0] + min(t, cut) - start) // piece.total[0] for t in (a, b))  # type: ignore[return-value]
    return 0, prefill if piece.home and (start == end or a <= start < b) else 0


def prefill_ps(piece: Piece, a: int, b: int, constants: Constants, divide: Divide) -> Any:
    """Compute of its prefill in [a, b): every token, and its attention to what is cached and was prefilled before it."""
    cached, (done_a, done_b) = uncached(piece.attempt)[0], prefilled_in(piece, a, b)
    new = done_b - done_a
    attention = divide(constants.attention_flop_per_token * new * (2 * cached + done_a + done_b), 2)
    return divide((constants.flop_per_token * new + attention) * 1_000_000, constants.flops_per_second // 1_000_000)


def pace_of(spans: Sequence[tuple[Piece, int, int]], slot_ns: int) -> int:
    """Millionths of a slot that prefills leave to decode, at least 1/32; those whose phases or constants are not known take nothing."""
    taken = 0
    for piece, a, b in spans:
        if piece.segment and piece.segment.constants and piece.phases_known:
            taken += min(prefill_ps(piece, a, b, piece.segment.constants, floor), slot_ns * 1000)
    return 1_000_000 - min(968_750, taken * 1000 // slot_ns)


Paces = dict[tuple[str, int | None, int], int]  # replica, begin of its segment, slot


def decoded_in(piece: Piece, a: int, b: int, paces: Paces, slot_ns: int, window_ns: int, divide: Divide) -> Any:
    """Decode tokens of [a, b), inside one slot, in thousandths: its window's tokens, which time alone decides, spread by pace."""
    attempt, cut = piece.attempt, piece.leg[1]
    tokens = max(min(attempt.output_tokens or 0, TOKENS_MAX) - 1, 0)
    first = a // slot_ns * slot_ns // window_ns * window_ns
    begin, end = max(piece.from_ns, first, cut), max(min(piece.to_ns, first + window_ns), cut)
    if not piece.total[1]:
        return 0
    in_window = [divide(1000 * tokens * (piece.before[1] + t - cut), piece.total[1]) for t in (begin, end)]

    def progress(x: int, y: int) -> int:
        key = (piece.replica, piece.segment.from_ns if piece.segment else None, x // slot_ns)
        return paces[key] * (max(y, cut) - max(x, cut))

    slots = range(max(piece.from_ns, first) // slot_ns, max(min(piece.to_ns, first + window_ns) - 1, piece.from_ns) // slot_ns + 1)
    whole = sum(progress(max(piece.from_ns, s * slot_ns), min(piece.to_ns, (s + 1) * slot_ns)) for s in slots)
    return divide((in_window[1] - in_window[0]) * progress(a, b), whole) if whole else 0


def context_at(piece: Piece, t: int) -> int:
    """Input and the decode tokens done by then, as time alone spreads them."""
    attempt, cut = piece.attempt, piece.leg[1]
    tokens = max(min(attempt.output_tokens or 0, TOKENS_MAX) - 1, 0)
    done = tokens * (piece.before[1] + max(t, cut) - cut) // piece.total[1] if piece.total[1] else 0
    return min(attempt.input_tokens or 0, TOKENS_MAX) + done


def rough_weight(piece: Piece, a: int, b: int, divide: Divide) -> Any:
    attempt = piece.attempt
    n_in = max(min(attempt.input_tokens or 0, TOKENS_MAX) - min(attempt.cached_tokens or 0, TOKENS_MAX), 0)
    n_out = min(attempt.output_tokens or 0, TOKENS_MAX)
    weight = 21_000 * n_in + 10_080 * n_out + 399 * n_in * n_out + 325 * n_out**2 + 114_600
    total, before = sum(piece.total), sum(piece.before)
    if total == 0:
        return weight
    start = piece.leg[0]
    return divide(weight * (before + b - start), total) - divide(weight * (before + a - start), total)


def roofline_weights(
    spans: Sequence[tuple[Piece, int, int]], decoded: Sequence[Any], constants: Constants, divide: Divide
) -> tuple[list[Any], Any]:
    """Tier B: two kinds of steps, each in the closed form of one step. Also the longest side, in ps. Steps in thousandths."""
    flops, reads = constants.flops_per_second // 1_000_000, constants.bytes_per_second // 1_000_000
    prefill, decode, cache, live, new = [], [], [], [], 0
    for (piece, a, b), d in zip(spans, decoded, strict=True):
        done_a, done_b = prefilled_in(piece, a, b)
        new += done_b - done_a
        context = context_at(piece, b)
        prefill.append(prefill_ps(piece, a, b, constants, divide))
        decode.append(divide((constants.flop_per_token + constants.attention_flop_per_token * context) * d * 1000, flops))
        cache.append(divide(constants.kv_bytes_per_token * d * context * 1000, reads))
        live.append(b - a)
    steps = max(1000, *decoded)
    mixed = min(steps, 1000 * -(-new // constants.prefill_budget_tokens))
    weights = divide(constants.weight_bytes * 1_000_000, reads)
    reading = [divide(weights * kind_steps, 1000) for kind_steps in (mixed, steps - mixed)]
    result: list[Any] = [divide(sum(reading) * ns, sum(live)) if sum(live) else 0 for ns in live]
    longest: Any = 0
    for kind_steps, carried, w in zip((mixed, steps - mixed), (prefill, [0] * len(spans)), reading, strict=True):
        compute = sum(carried) + divide(sum(decode) * kind_steps, steps)
        kv = divide(sum(cache) * kind_steps, steps)
        longest = max(longest, compute, kv + w)
        for i in range(len(spans)):
            own_kv = divide(cache[i] * kind_steps, steps)
            own_compute = carried[i] + divide(decode[i] * kind_steps, steps)
            result[i] += own_kv if compute <= kv + w else divide(w * own_kv + (compute - kv - w) * own_compute, compute - kv)
    return result, longest


def spans_of(pieces: Sequence[Piece], slot: int, slot_ns: int) -> list[tuple[Piece, int, int]]:
    """What lies of each piece in the slot, in the order that breaks ties."""
    spans = [(piece, max(piece.from_ns, slot * slot_ns), min(piece.to_ns, (slot + 1) * slot_ns)) for piece in pieces]
    return sorted(spans, key=lambda x: (x[0].attempt.attempt_id, x[0].leg_no, x[1]))


def constants_of(pieces: Sequence[Piece]) -> Constants | None:
    return pieces[0].segment.constants if pieces[0].segment else None


def split_cell(
    books: Books,
    shares: dict[tuple[int, str, str, str], list[int]],
    pieces: Sequence[Piece],
    slot: int,
    slot_ns: int,
    window_ns: int,
    paces: Paces,
) -> None:
    s0, s1 = slot * slot_ns, (slot + 1) * slot_ns
    spans = spans_of(pieces, slot, slot_ns)
    busy = union_length((a, b) for _, a, b in spans)
    segment, replica, window = pieces[0].segment, pieces[0].replica, s0 // window_ns * window_ns
    if segment:
        a, b = max(s0, segment.from_ns), min(s1, segment.to_ns)
        busy_atoms = segment.atoms(a, b) * busy // (b - a)
        pool = books.pools[window, replica, segment.price_id, segment.priced]
    else:
        busy_atoms = 0
        pool = books.pools[window, replica, "", False]
        pool.capacity_ns += busy
    pool.busy_ns += busy
    pool.busy_atoms += busy_atoms
    constants = constants_of(pieces)
    tier = "B" if constants and all(p.phases_known for p in pieces) else "C"
    if constants and tier == "B":
        decoded = [[decoded_in(*span, paces, slot_ns, window_ns, divide) for span in spans] for divide in (floor, Fraction)]
        weights, longest = roofline_weights(spans, decoded[0], constants, floor)
        exact, _ = roofline_weights(spans, decoded[1], constants, Fraction)
        if longest**2 >= 2**124 or longest * 4 * max(busy_atoms, busy) >= 2**125:
            tier = "C"  # no machine works that long on one slot: a count is absurd
    if tier == "C":
        weights = [rough_weight(*span, floor) for span in spans]
        exact = [rough_weight(*span, Fraction) for span in spans]
    if sum(exact):
        for (piece, _, _), weight in zip(spans, exact, strict=True):
            books.exact[window, replica, piece.attempt.attempt_id] += Fraction(busy_atoms) * weight / sum(exact)
    total = sum(weights)
    if total == 0:
        if busy or busy_atoms:
            entry = shares[window, replica, "", "none"]
            entry[0] += busy
            entry[1] += busy_atoms
        return
    atoms, order = largest_remainder(busy_atoms, weights)
    so_far = 0
    for i in order:
        entry = shares[window, replica, spans[i][0].attempt.attempt_id, tier]
        entry[0] += busy * (so_far + weights[i]) // total - busy * so_far // total
        entry[1] += atoms[i]
        so_far += weights[i]


def largest_remainder(amount: int, weights: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Parts that sum to `amount`, and the order in which remainders were served (largest first, ties by position)."""
    total = sum(weights)
    parts = [int(amount * w // total) for w in weights]
    order = sorted(range(len(weights)), key=lambda i: (-(amount * weights[i] - parts[i] * total), i))
    for i in order[: amount - sum(parts)]:
        parts[i] += 1
    return parts, order


def rough(n_in: int, n_out: int) -> Fraction:
    """Tier C's weight of a whole attempt (DESIGN 4.3), in its own decimal constants."""
    per_in, per_out, crossed, squared, fixed = map(Fraction, ("0.21", "0.1008", "0.00399", "0.00325", "1.146"))
    return per_in * n_in + per_out * n_out + crossed * n_in * n_out + squared * n_out**2 + fixed


def waste(attempt: Attempt) -> dict[str, Fraction]:
    """What each class before the outcome adds to the attempt's rough weight: with these tokens less without them."""
    cached, made = min(attempt.cached_tokens or 0, TOKENS_MAX), min(attempt.output_tokens or 0, TOKENS_MAX)
    uncached = max(min(attempt.input_tokens or 0, TOKENS_MAX) - cached, 0)
    unseen = missed = stale = 0
    if attempt.outcome == "aborted" and attempt.delivered_tokens is not None:
        unseen = max(made - attempt.delivered_tokens, 0)
    if attempt.best_hit_tokens is not None and attempt.expected_hit_tokens is not None:
        missed = min(max(attempt.best_hit_tokens - attempt.expected_hit_tokens, 0), uncached)
    if attempt.expected_hit_tokens is not None and attempt.cached_tokens is not None:
        stale = min(max(attempt.expected_hit_tokens - cached, 0), uncached - missed)
    per_in = rough(1, 0) - rough(0, 0)
    return {
        "overgenerated": rough(uncached, made) - rough(uncached, made - unseen),
        "recompute": per_in * min(attempt.recompute_tokens or 0, TOKENS_MAX),
        "rejected_draft": per_in * min(attempt.rejected_draft_tokens or 0, TOKENS_MAX),
        "affinity_miss": per_in * missed,
        "stale_index": per_in * stale,
        attempt.outcome: rough(uncached, made) - (rough(uncached, made) - rough(uncached, made - unseen)) - per_in * (missed + stale),
    }


def classes(attempt: Attempt | None, ns: int, atoms: int) -> list[tuple[str, int, int]]:
    if attempt is None:
        return [("unattributed", ns, atoms)]
    told = [(name, weight) for name, weight in waste(attempt).items() if weight]
    weights = [weight for _, weight in told]
    part_ns, part_atoms = largest_remainder(ns, weights)[0], largest_remainder(atoms, weights)[0]
    return [(name, part_ns[i], part_atoms[i]) for i, (name, _) in enumerate(told)]


def save(books: Books, piece: Piece, window_ns: int) -> None:
    attempt, segment, start = piece.attempt, piece.segment, piece.leg[0]
    if (
        not piece.home
        or piece.from_ns != start
        or attempt.cached_tokens is None
        or not segment
        or not segment.priced
        or not segment.constants
    ):
        return
    cached = min(attempt.cached_tokens, TOKENS_MAX if attempt.input_tokens is None else attempt.input_tokens, TOKENS_MAX)
    entry = books.savings[start // window_ns * window_ns]
    entry[0] += cached
    entry[1] += cached * segment.constants.flop_per_token * segment.atoms_per_hour // (segment.constants.flops_per_second * 3600)


def union_length(intervals: Iterable[tuple[int, int]]) -> int:
    length, reached = 0, None
    for a, b in sorted(intervals):
        a = a if reached is None else max(a, reached)
        length += max(0, b - a)
        reached = b if reached is None else max(reached, b)
    return length
