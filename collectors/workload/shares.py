"""Who used a GPU step: integer weights of the closed Aumann-Shapley form, and their exact split (DESIGN 4.3, tier A).

A step costs `max(sum F, w + sum K)` ticks: F compute and K cache reading of each item, w the reading of the weights. With n items,
`t = 1 if sum F <= sum K + w else w / (sum F - sum K)`, an item's share is `w/n + t K_i + (1 - t) F_i`; the shares sum to the cost.
"""

from collections.abc import Sequence


def step_weights(compute: Sequence[int], cache: Sequence[int], weights: int) -> list[int]:
    """The items' shares of one step, times a common positive factor that makes them whole numbers. Ticks in; `weights` > 0."""
    items = len(compute)
    total_compute, total_cache = sum(compute), sum(cache)
    if total_compute <= total_cache + weights:
        return [weights + items * read for read in cache]
    above = total_compute - total_cache
    rest = above - weights
    return [weights * above + items * (weights * read + rest * work) for work, read in zip(compute, cache, strict=True)]


def split(total: int, weights: Sequence[int]) -> list[int]:
    """`total` >= 0 in parts proportional to the weights (not all 0), each less than 1 off, summing to `total` exactly."""
    whole = sum(weights)
    parts = []
    upto = before = 0
    for weight in weights:
        upto += weight
        reached = total * upto // whole
        parts.append(reached - before)
        before = reached
    return parts
