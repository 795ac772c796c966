"""Replays a request trace through a modelled serving cluster, emits its spans, and knows the truth about every token.

trace (Mooncake JSONL, Azure CSV) or example -> plan (what chance decides) -> cluster (gateway, routing, engines) -> spans -> target,
with the truth written beside. All of it follows from the input and the seed: the same run again gives the same bytes.
"""
