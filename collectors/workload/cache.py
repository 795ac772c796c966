"""The KV memory of one replica: pages in use, and full prompt blocks kept for later requests until room is needed (LRU).

A block of 512 tokens is 32 pages. It enters the cache when its prefill is done, is shared while requests hold it, and stays as
evictable once nobody does. Deeper blocks of a prompt are given up first, as a prefix is worth nothing without its beginning.
"""

from collections import OrderedDict
from collections.abc import Sequence

from collectors.workload.roofline import KV_PAGE_TOKENS
from collectors.workload.trace import BLOCK_TOKENS

BLOCK_PAGES = BLOCK_TOKENS // KV_PAGE_TOKENS


class KvCache:
    """Counts pages; never holds more than `capacity_pages`. Not thread-safe."""

    def __init__(self, capacity_pages: int) -> None:
        self.capacity_pages = capacity_pages
        self.private_pages = 0  # held by one request each
        self.holders: dict[int, int] = {}  # cached block -> requests that hold it
        self.unheld: OrderedDict[int, None] = OrderedDict()  # cached blocks nobody holds, next to go first
        self.evicted_blocks = 0

    @property
    def free_pages(self) -> int:
        return self.capacity_pages - self.private_pages - BLOCK_PAGES * len(self.holders)

    @property
    def available_pages(self) -> int:
        """Free now or after evicting all that nobody holds."""
        return self.free_pages + BLOCK_PAGES * len(self.unheld)

    def match(self, blocks: Sequence[int]) -> int:
        """How many leading blocks are cached."""
        for count, block in enumerate(blocks):
            if block not in self.holders:
                return count
        return len(blocks)

    def hold(self, blocks: Sequence[int]) -> None:
        """Takes a share in cached blocks."""
        for block in blocks:
            self.holders[block] += 1
            self.unheld.pop(block, None)

    def take(self, pages: int) -> bool:
        """Takes private pages, evicting as needed; False and nothing changed if there are not enough."""
        if pages > self.available_pages:
            return False
        while self.free_pages < pages:
            block, _ = self.unheld.popitem(last=False)
            del self.holders[block]
            self.evicted_blocks += 1
        self.private_pages += pages
        return True

    def publish(self, block: int) -> bool:
        """Turns 32 private pages of the caller into a cached block held by it; False if the block is cached already (both copies stay)."""
        if block in self.holders:
            return False
        self.private_pages -= BLOCK_PAGES
        self.holders[block] = 1
        return True

    def release(self, private_pages: int, blocks: Sequence[int]) -> None:
        """Gives back private pages and shares in blocks (in prompt order)."""
        self.private_pages -= private_pages
        for block in reversed(blocks):
            self.holders[block] -= 1
            if not self.holders[block]:
                self.unheld[block] = None
