"""An OpenAI-compatible server whose answers are known beforehand: each model has its usage, its way to fail or its slowness.

`Upstream.attempts` is the truth that readings are held against: one row per HTTP request, with what was sent.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

WORDS = 40


@dataclass(frozen=True)
class Usage:
    """Cached tokens are part of `prompt`, reasoning tokens of `completion`."""

    prompt: int
    completion: int
    cached: int = 0
    reasoning: int = 0

    def body(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        }


PLAIN = Usage(120, 40)
USAGE = {
    "stub-plain": PLAIN,
    "stub-cached": Usage(2048, 64, cached=1536),
    "stub-reason": Usage(512, 300, cached=256, reasoning=220),
    "stub-flaky": PLAIN,  # every odd attempt is refused with 503
    "stub-slow": PLAIN,  # 50 ms a word
}
REFUSALS = {"stub-dead": 503, "stub-limited": 429}


@dataclass(frozen=True)
class Attempt:
    model: str
    status: int
    streamed: bool
    usage_told: bool


@dataclass
class Upstream:
    attempts: list[Attempt] = field(default_factory=list)

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/chat/completions", self.answer, methods=["POST"])])

    async def answer(self, request: Request) -> Response:
        asked = await request.json()
        model, streamed = asked["model"], bool(asked.get("stream"))
        told = not streamed or bool((asked.get("stream_options") or {}).get("include_usage"))
        status = self.status_of(model)
        self.attempts.append(Attempt(model, status, streamed, told and status == 200))
        if status != 200:
            error = {"message": f"{model} refuses", "type": "server_error", "code": str(status)}
            return JSONResponse({"error": error}, status_code=status)
        number = len(self.attempts)
        if streamed:
            return StreamingResponse(chunks(model, number, told), media_type="text/event-stream")
        message = {"role": "assistant", "content": " ".join(["word"] * WORDS)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({**head(model, number, "chat.completion"), "choices": [choice], "usage": USAGE[model].body()})

    def status_of(self, model: str) -> int:
        if model == "stub-flaky":
            before = sum(attempt.model == model for attempt in self.attempts)
            return 503 if before % 2 == 0 else 200
        return REFUSALS.get(model, 200 if model in USAGE else 404)


def head(model: str, number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-stub-{number:04}", "object": kind, "created": 1_790_000_000, "model": f"{model}-2026-09-01"}


async def chunks(model: str, number: int, told: bool) -> AsyncIterator[str]:
    opening = head(model, number, "chat.completion.chunk")
    for word in range(WORDS):
        delta = {"content": "word "} if word else {"role": "assistant", "content": "word "}
        yield event({**opening, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        await asyncio.sleep(0.05 if model == "stub-slow" else 0.001)
    yield event({**opening, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if told:
        yield event({**opening, "choices": [], "usage": USAGE[model].body()})
    yield "data: [DONE]\n\n"


def event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body)}\n\n"
