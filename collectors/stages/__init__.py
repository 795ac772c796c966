"""Spans of your own serving stack, as Tokenpath reads them best (docs/spans.md): one context manager a stage, by the group it belongs to.

Needs the OpenTelemetry API and nothing else; which SDK sends the spans where is the application's business, and without one nothing
happens. A value that is None is not told: unknown is never 0. An exception that leaves a stage makes it an error with the exception's
class; its text stays out, because it may hold a prompt.
"""

from collectors.stages import gateway, gpu, inference, kv_cache, network, scheduler

__all__ = ["gateway", "gpu", "inference", "kv_cache", "network", "scheduler"]
