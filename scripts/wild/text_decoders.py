"""Decoders of text: GPT-2 and what came of it, mixtures of experts and state spaces."""

from __future__ import annotations

from wild.architecture import Architecture
from wild.hugging import HIDDEN, LENGTH, TEXT, VOCABULARY, hugging, text_inputs
from wild.values import Draw, integers

IDS = text_inputs()
LEFT = text_inputs(left=True)
UNMASKED: dict[str, Draw] = {"input_ids": IDS["input_ids"]}
GROUPED = {**TEXT, "num_key_value_heads": 2}
HEADS = {**GROUPED, "head_dim": 16}
GPT2 = {"n_embd": HIDDEN, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY, "n_positions": 64}
SLIDING = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}
MULTI_LATENT = {
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
}


def _causal(
    model: str, config: dict[str, object], inputs: dict[str, Draw] | None = None
) -> Architecture:
    return hugging(f"{model}ForCausalLM", config, inputs or IDS, use_cache=False)


TEXT_DECODERS: dict[str, Architecture] = {
    "gpt2": hugging("GPT2LMHeadModel", GPT2, IDS, use_cache=False),
    "gpt2_left_padded": hugging("GPT2LMHeadModel", GPT2, LEFT, use_cache=False),
    "gpt_neox": _causal("GPTNeoX", TEXT),
    "gptj": _causal("GPTJ", {**GPT2, "rotary_dim": 8}),
    "gpt_neo": _causal(
        "GPTNeo",
        {
            "hidden_size": HIDDEN,
            "num_layers": 2,
            "num_heads": 4,
            "vocab_size": VOCABULARY,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 4,
            "max_position_embeddings": 64,
        },
    ),
    "opt": _causal(
        "OPT",
        {**TEXT, "ffn_dim": 128, "word_embed_proj_dim": HIDDEN, "max_position_embeddings": 64},
    ),
    "bloom": _causal(
        "Bloom", {"hidden_size": HIDDEN, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY}
    ),
    "llama": _causal("Llama", HEADS),
    "llama_left_padded": _causal("Llama", HEADS, LEFT),
    "mistral": _causal("Mistral", {**HEADS, "sliding_window": 5}),
    "mixtral": _causal("Mixtral", {**GROUPED, "num_local_experts": 4}),
    "qwen2": _causal("Qwen2", GROUPED),
    "qwen2_moe": _causal(
        "Qwen2Moe",
        {
            **GROUPED,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 64,
        },
    ),
    "qwen3": _causal("Qwen3", HEADS),
    "gemma": _causal("Gemma", HEADS),
    "gemma2": _causal("Gemma2", {**HEADS, **SLIDING, "query_pre_attn_scalar": 16}),
    "gemma3": _causal("Gemma3", {**HEADS, **SLIDING, "query_pre_attn_scalar": 16}),
    "phi": _causal("Phi", {**TEXT, "partial_rotary_factor": 0.5}),
    "phi3": _causal("Phi3", GROUPED),
    "falcon": _causal("Falcon", {**TEXT, "ffn_hidden_size": 128}),
    "falcon_unmasked": _causal(
        "Falcon", TEXT, {"input_ids": integers(1, 16, low=3, high=VOCABULARY)}
    ),
    "falcon_alibi": _causal("Falcon", {**TEXT, "ffn_hidden_size": 128, "alibi": True}),
    "falcon_new": _causal(
        "Falcon",
        {**TEXT, "ffn_hidden_size": 128, "new_decoder_architecture": True, "num_kv_heads": 2},
    ),
    "mpt": _causal(
        "Mpt",
        {
            "d_model": HIDDEN,
            "n_heads": 4,
            "n_layers": 2,
            "max_seq_len": 32,
            "vocab_size": VOCABULARY,
        },
    ),
    "stablelm": _causal("StableLm", {**GROUPED, "use_qkv_bias": True, "qk_layernorm": True}),
    "starcoder2": _causal("Starcoder2", GROUPED),
    "olmo2": _causal("Olmo2", GROUPED),
    "cohere": _causal("Cohere", {**GROUPED, "use_qk_norm": True}),
    "granite": _causal("Granite", {**GROUPED, "residual_multiplier": 0.5, "logits_scaling": 2.0}),
    "codegen": _causal("CodeGen", {**GPT2, "rotary_dim": 8, "n_ctx": 64}),
    "ctrl": hugging(
        "CTRLLMHeadModel",
        {"n_embd": HIDDEN, "dff": 128, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY},
        IDS,
        use_cache=False,
    ),
    "xglm": _causal(
        "XGLM",
        {
            "d_model": HIDDEN,
            "ffn_dim": 128,
            "num_layers": 2,
            "attention_heads": 4,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 64,
        },
    ),
    "persimmon": _causal("Persimmon", TEXT),
    "deepseek_v3": _causal(
        "DeepseekV3",
        {
            **TEXT,
            **MULTI_LATENT,
            "num_key_value_heads": 4,
            "n_routed_experts": 8,
            "n_group": 2,
            "topk_group": 1,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 1,
        },
    ),
    "gpt_oss": _causal(
        "GptOss", {**HEADS, **SLIDING, "num_local_experts": 4, "num_experts_per_tok": 2}
    ),
    "mamba": _causal(
        "Mamba",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "num_hidden_layers": 2,
            "state_size": 8,
            "time_step_rank": 8,
        },
        UNMASKED,
    ),
    "mamba2": _causal(
        "Mamba2",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "num_hidden_layers": 2,
            "state_size": 8,
            "num_heads": 4,
            "head_dim": 32,
            "n_groups": 2,
            "chunk_size": 4,
        },
        UNMASKED,
    ),
    "rwkv": _causal(
        "Rwkv",
        {
            "vocab_size": VOCABULARY,
            "context_length": LENGTH,
            "hidden_size": HIDDEN,
            "attention_hidden_size": HIDDEN,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
        },
        UNMASKED,
    ),
    "recurrent_gemma": _causal(
        "RecurrentGemma",
        {
            **HEADS,
            "num_hidden_layers": 3,
            "lru_width": HIDDEN,
            "attention_window_size": 6,
        },
    ),
}
