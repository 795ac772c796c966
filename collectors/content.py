"""Drops prompts and completions from a trace request. The deny list is data: content.toml, with a reason for each key."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict

from collectors.wire import Place, tolerant


class ContentKey(BaseModel):
    """One entry of the list; the fields are explained at the top of content.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    why: str
    exact: bool = False
    event: str = ""

    def pattern(self) -> bytes:
        return re.escape(self.key).replace(r"\*", "[^.]+").encode() + (rb"\Z" if self.exact else rb"(?:\.|\Z)")


class ContentFilter:
    """Safe to share between threads."""

    def __init__(self, keys: Sequence[ContentKey]) -> None:
        anywhere = _any_of([key.pattern() for key in keys if not key.event])
        on_some_event = _any_of([key.pattern() for key in keys])
        on_events = [(key.event.encode(), _any_of([key.pattern()])) for key in keys if key.event]

        @lru_cache(maxsize=4096)
        def on_span(key: bytes) -> bool:
            return bool(anywhere.match(key))

        @lru_cache(maxsize=4096)
        def on_field(key: str) -> bool:
            return bool(anywhere.match(key.encode("utf-8", "replace")))

        @lru_cache(maxsize=4096)
        def on_event(key: bytes, event: bytes | None) -> bool:
            if event is None:
                return bool(on_some_event.match(key))
            return on_span(key) or any(event.startswith(name) and rule.match(key) for name, rule in on_events)

        self._on_span, self._on_field, self._on_event = on_span, on_field, on_event

    def is_content(self, key: str) -> bool:
        """Whether a field of this name, or an attribute of a span, holds content."""
        return self._on_field(key)

    def may_have_content(self, keys: Mapping[Place, Set[bytes]]) -> bool:
        """Whether a trace request with these keys has content. False: certainly not. True also for an event key on another event."""
        return any(
            any(self._on_event(key, None) for key in found) if "events" in place else any(map(self._on_span, found))
            for place, found in keys.items()
        )

    def drop(self, body: bytes) -> tuple[bytes, int]:
        """The trace request without content attributes, and how many were dropped. Nothing dropped: the same bytes.

        Looks at attributes of resources, scopes, spans, events and links. Unknown fields and bad UTF-8 are kept.
        `body` is well formed and within the edge's limits.
        """
        request: Any = tolerant("traces").FromString(body)
        dropped = 0
        for resource_spans in request.resource_spans:
            dropped += _prune(resource_spans.resource, self._on_span)
            for scope_spans in resource_spans.scope_spans:
                dropped += _prune(scope_spans.scope, self._on_span)
                for span in scope_spans.spans:
                    dropped += _prune(span, self._on_span)
                    for event in span.events:
                        dropped += _prune(event, partial(self._on_event, event=event.name))
                    for link in span.links:
                        dropped += _prune(link, self._on_span)
        return (request.SerializeToString(), dropped) if dropped else (body, 0)


def _prune(holder: Any, is_content: Callable[[bytes], bool]) -> int:
    """Removes what is content from the holder's attributes; how many that were."""
    doomed = [index for index, attribute in enumerate(holder.attributes) if is_content(attribute.key)]
    for index in reversed(doomed):
        del holder.attributes[index]
    return len(doomed)


def _any_of(patterns: Sequence[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(patterns) or rb"(?!)", re.DOTALL)


def content_keys() -> list[ContentKey]:
    """The packaged list."""
    document = tomllib.loads(files("collectors").joinpath("content.toml").read_text(encoding="utf-8"))
    return [ContentKey.model_validate(entry) for entry in document["content"]]
