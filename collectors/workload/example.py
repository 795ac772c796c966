"""A request trace of our own making, so that a demo needs no file: conversations of a few applications with shared system prompts.

Prompts grow with each turn (the earlier turns are their prefix), people think between turns, and load comes in waves with two bursts.
"""

import json
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from math import exp, log, pi, sin
from pathlib import Path
from random import Random
from typing import NamedTuple

from collectors.workload.trace import BLOCK_TOKENS, TraceRequest

SPAN_SECONDS = 1800
APPLICATIONS = 8
TURNS_MEAN = 2.2


class _Turn(NamedTuple):
    session: int
    turn: int
    tokens: int  # of the conversation so far, without this turn's question
    blocks: tuple[int, ...]
    long: bool


def synthesize(requests: int = 1500, seed: int = 7, span_seconds: int = SPAN_SECONDS) -> Iterator[TraceRequest]:
    """`requests` of them in about `span_seconds`, in order of arrival; the same arguments give the same trace."""
    chance = Random(f"{seed} example")
    fresh = iter(range(1, 1 << 62)).__next__
    systems = [tuple(fresh() for _ in range(chance.randrange(1, 5))) for _ in range(APPLICATIONS)]
    due: list[tuple[float, int, _Turn]] = []
    next_start, sessions, made = _next_start(chance, 0.0, requests, span_seconds), 0, 0
    while made < requests:
        while not due or next_start <= due[0][0]:
            system = systems[min(int(chance.expovariate(0.4)), APPLICATIONS - 1)]
            heappush(due, (next_start, sessions, _Turn(sessions, 1, len(system) * BLOCK_TOKENS, system, chance.random() < 0.2)))
            sessions += 1
            next_start = _next_start(chance, next_start, requests, span_seconds)
        at, _, turn = heappop(due)
        made += 1
        asked = min(60_000, round(chance.lognormvariate(log(16000 if turn.long else 1500), 0.9)) + 8)
        answer = max(1, min(3000, round(chance.lognormvariate(log(560), 0.8))))
        input_tokens = turn.tokens + asked
        blocks = turn.blocks + tuple(fresh() for _ in range(-(-input_tokens // BLOCK_TOKENS) - len(turn.blocks)))
        yield TraceRequest(made, round(at * 1000) * 1_000_000, input_tokens, answer, blocks, session_id=f"chat-{turn.session:05d}")
        if chance.random() < 1 - 1 / TURNS_MEAN and input_tokens < 100_000:
            # The answer's blocks are new; the last, partly filled block of the prompt is another one once it has grown.
            whole = blocks[: input_tokens // BLOCK_TOKENS]
            follow = _Turn(turn.session, turn.turn + 1, input_tokens + answer, whole, False)
            heappush(due, (at + answer * 0.02 + chance.lognormvariate(log(25), 0.7), turn.session, follow))


def _next_start(chance: Random, after: float, requests: int, span_seconds: int) -> float:
    """The next conversation's start: a Poisson process whose rate swings, with a burst at 40% and at 75% of the span."""
    place = after / span_seconds
    burst = 5.0 * exp(-(((place - 0.4) / 0.015) ** 2)) + 8.0 * exp(-(((place - 0.75) / 0.015) ** 2))
    rate = requests / TURNS_MEAN / span_seconds * (0.6 + 0.2 * sin(6 * pi * place) + burst)
    return after + chance.expovariate(rate)


def write_mooncake(file: Path, requests: Iterable[TraceRequest]) -> int:
    """Writes requests as Mooncake JSONL with our extra fields; returns how many."""
    count = 0
    with file.open("w", encoding="utf-8") as out:
        for request in requests:
            line = {
                "timestamp": request.arrival_ns // 1_000_000,
                "input_length": request.input_tokens,
                "output_length": request.output_tokens,
            }
            extras = {"tenant": request.tenant, "model": request.model, "session_id": request.session_id}
            known = {key: value for key, value in extras.items() if value is not None}
            out.write(json.dumps(line | {"hash_ids": list(request.blocks)} | known) + "\n")
            count += 1
    return count
