"""Encoder-decoders of text: two sequences, cross attention between them."""

from __future__ import annotations

from wild.architecture import Architecture
from wild.hugging import BATCH, HIDDEN, VOCABULARY, hugging, text_inputs
from wild.values import integers, padded

TARGET = 7
PAIRS = {
    **text_inputs(),
    "decoder_input_ids": integers(BATCH, TARGET, low=3, high=VOCABULARY),
    "decoder_attention_mask": padded(BATCH, TARGET),
}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
BART = {
    **TOKENS,
    "vocab_size": VOCABULARY,
    "d_model": HIDDEN,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 64,
}
T5 = {
    **TOKENS,
    "vocab_size": VOCABULARY,
    "d_model": HIDDEN,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
}

TEXT_PAIRS: dict[str, Architecture] = {
    "t5": hugging("T5ForConditionalGeneration", T5, PAIRS, use_cache=False),
    "flan_t5": hugging(
        "T5ForConditionalGeneration",
        {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        PAIRS,
        use_cache=False,
    ),
    "bart": hugging("BartForConditionalGeneration", BART, PAIRS, use_cache=False),
    "marian": hugging(
        "MarianMTModel", {**BART, "decoder_vocab_size": VOCABULARY}, PAIRS, use_cache=False
    ),
    "pegasus": hugging("PegasusForConditionalGeneration", BART, PAIRS, use_cache=False),
    "m2m100": hugging("M2M100ForConditionalGeneration", BART, PAIRS, use_cache=False),
    "prophetnet": hugging(
        "ProphetNetModel",
        {
            **TOKENS,
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
            "encoder_ffn_dim": 128,
            "decoder_ffn_dim": 128,
        },
        PAIRS,
        use_cache=False,
    ),
}
