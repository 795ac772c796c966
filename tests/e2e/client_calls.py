"""Seven calls of the OpenAI client under one instrumentation library, with the library's defaults. Run by the environment's interpreter:

client_calls.py LIBRARY BASE_URL OTLP_HTTP

Calls: 1 plain, 2 cached prompt, 3 streamed with usage and reasoning, 4 streamed without usage, 5 refused once and retried by the
client itself, 6 refused, 7 streamed and left after three words.
"""

import sys


def instrument(library: str, endpoint: str) -> None:
    """Lets `library` send its spans to `endpoint`; they are flushed when the process ends."""
    if library == "openlit":
        import openlit

        openlit.init(service_name=library, environment="e2e", otlp_endpoint=endpoint, capture_message_content=False)
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": library}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")))
    trace.set_tracer_provider(provider)
    instrumentor(library).instrument(tracer_provider=provider)


def instrumentor(library: str):
    if library == "openai-v2":
        from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
    elif library == "openinference":
        from openinference.instrumentation.openai import OpenAIInstrumentor
    else:
        from opentelemetry.instrumentation.openai import OpenAIInstrumentor
    return OpenAIInstrumentor()


def calls(base_url: str) -> None:
    from openai import OpenAI, RateLimitError

    client = OpenAI(api_key="not-a-key", base_url=base_url, max_retries=1)

    def ask(model: str, **options):
        return client.chat.completions.create(model=model, messages=[{"role": "user", "content": "say words"}], **options)

    ask("stub-plain")
    ask("stub-cached")
    for options in ({"model": "stub-reason", "stream_options": {"include_usage": True}}, {"model": "stub-plain"}):
        for _ in ask(**options, stream=True):
            pass
    ask("stub-flaky")
    try:
        client.with_options(max_retries=0).chat.completions.create(
            model="stub-limited", messages=[{"role": "user", "content": "say words"}]
        )
    except RateLimitError:
        pass
    else:
        raise AssertionError("the stub must have refused")
    stream = ask("stub-slow", stream=True)
    for number, _ in enumerate(stream):
        if number == 2:
            break
    stream.close()


if __name__ == "__main__":
    instrument(sys.argv[1], sys.argv[3])
    calls(sys.argv[2])
