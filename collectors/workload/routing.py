"""Which replica takes an attempt."""

from collections.abc import Sequence
from typing import NamedTuple

from collectors.workload.options import RoutingPolicy
from collectors.workload.replica import Replica
from collectors.workload.trace import BLOCK_TOKENS

RUNNING_COST_TOKENS = 256  # how much cached prefix a busy neighbour is worth, per attempt that it has more


class Route(NamedTuple):
    """`expected_hit_tokens`: cached on the chosen replica when it was chosen; `best_hit_tokens`: the most on any other."""

    replica: Replica
    expected_hit_tokens: int
    best_hit_tokens: int


def choose(
    policy: RoutingPolicy, turn: int, replicas: Sequence[Replica], blocks: Sequence[int], input_tokens: int, avoid: Replica | None
) -> Route:
    """`round_robin` takes the next in turn; `prefix_aware` the best overlap minus what waits and runs there, ties to the first.
    A replica where the last attempt failed is avoided if there is another."""
    usable = blocks[: (input_tokens - 1) // BLOCK_TOKENS]
    hits = {replica.id: replica.cache.match(usable) * BLOCK_TOKENS for replica in replicas}
    candidates = [replica for replica in replicas if replica is not avoid] or list(replicas)
    if policy == "round_robin":
        chosen = candidates[turn % len(candidates)]
    else:
        chosen = max(candidates, key=lambda replica: hits[replica.id] - _load_tokens(replica))
    return Route(chosen, hits[chosen.id], max((found for id, found in hits.items() if id != chosen.id), default=0))


def _load_tokens(replica: Replica) -> int:
    return replica.unstarted_tokens() + RUNNING_COST_TOKENS * (len(replica.running) + len(replica.waiting))
