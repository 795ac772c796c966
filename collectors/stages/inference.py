"""One attempt at an inference: a span of OpenTelemetry's GenAI conventions, and no stage. Usage stands here and nowhere else."""

import time
from typing import Literal

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from collectors.stages.span import Recorded, Value

Operation = Literal["chat", "text_completion", "embeddings", "generate_content"]


class Inference(Recorded):
    """`attempt` counts from 1; a retry or fallback is the next one. `replica`: all GPUs of one tensor- and pipeline-parallel group."""

    __slots__ = ("_begun_ns",)
    kind = SpanKind.CLIENT

    def __init__(
        self,
        model: str,
        *,
        operation: Operation = "chat",
        attempt: int = 1,
        stream: bool | None = None,
        replica: str | None = None,
        request_id: str | None = None,
        provider: str | None = None,
        conversation: str | None = None,
        parent: Context | None = None,
        start_ns: int | None = None,
    ) -> None:
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": operation,
            "gen_ai.request.model": model,
            "tokenpath.attempt.number": attempt,
        }
        if stream is not None:
            attributes["gen_ai.request.stream"] = stream
        if replica is not None:
            attributes["tokenpath.replica.id"] = replica
        if request_id is not None:
            attributes["tokenpath.request.id"] = request_id
        if provider is not None:
            attributes["gen_ai.provider.name"] = provider
        if conversation is not None:
            attributes["gen_ai.conversation.id"] = conversation
        super().__init__(f"{operation} {model}", attributes, parent, start_ns)
        self._begun_ns = start_ns or time.time_ns()

    def first_chunk(self, at_ns: int | None = None) -> None:
        """The first chunk of the answer is here (now, or at `at_ns`)."""
        seconds = ((at_ns or time.time_ns()) - self._begun_ns) / 1e9
        self.span.set_attribute("gen_ai.response.time_to_first_chunk", seconds)

    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cache_read_tokens: int | None = None,
        cache_write_tokens: int | None = None,
        reasoning_tokens: int | None = None,
    ) -> None:
        """`input_tokens` contains what was read from and written to the cache, `output_tokens` the reasoning."""
        self.set("gen_ai.usage.input_tokens", input_tokens)
        self.set("gen_ai.usage.output_tokens", output_tokens)
        self.set("gen_ai.usage.cache_read.input_tokens", cache_read_tokens)
        self.set("gen_ai.usage.cache_creation.input_tokens", cache_write_tokens)
        self.set("gen_ai.usage.reasoning.output_tokens", reasoning_tokens)

    def response(self, *, id: str | None = None, model: str | None = None, finish_reasons: tuple[str, ...] | None = None) -> None:
        self.set("gen_ai.response.id", id)
        self.set("gen_ai.response.model", model)
        self.set("gen_ai.response.finish_reasons", finish_reasons)
