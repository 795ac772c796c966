"""Writes a directory that Dynamo takes for a model: a tokenizer of single bytes, so that a prompt has as many tokens as characters.

dynamo_model.py DIRECTORY
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ["<unk>", "<s>", "</s>"]
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}


def write_model(directory: Path) -> None:
    words = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(directory / "tokenizer.json"))
    ids = {"bos_token_id": 1, "eos_token_id": 2}
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "model_max_length": 8192, "chat_template": TEMPLATE}
    files = {
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **names},
        "config.json": {**CONFIG, **ids, "vocab_size": len(words)},
        "generation_config.json": ids,
    }
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))


if __name__ == "__main__":
    write_model(Path(sys.argv[1]))
