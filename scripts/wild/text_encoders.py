"""Encoders of text: BERT and what came of it."""

from __future__ import annotations

from wild.architecture import Architecture
from wild.hugging import BATCH, HIDDEN, LENGTH, SIZES, TEXT, VOCABULARY, hugging, text_inputs
from wild.values import boxes, integers

IDS = text_inputs()
IDS_AND_TYPES = {**IDS, "token_type_ids": integers(BATCH, LENGTH, high=2)}
DEBERTA = {
    **TEXT,
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "max_position_embeddings": 32,
    "position_buckets": 8,
    "position_biased_input": False,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "legacy": False,
}
XLNET = {"d_model": HIDDEN, "n_layer": 2, "n_head": 4, "d_inner": 128, "vocab_size": VOCABULARY}
FUNNEL = {
    "vocab_size": VOCABULARY,
    "block_sizes": [1, 1],
    "num_decoder_layers": 1,
    "d_model": HIDDEN,
    "n_head": 4,
    "d_head": 16,
    "d_inner": 128,
}

TEXT_ENCODERS: dict[str, Architecture] = {
    "bert": hugging("BertModel", TEXT, IDS_AND_TYPES, outputs=(0, 1)),
    "bert_qa": hugging("BertForQuestionAnswering", TEXT, IDS_AND_TYPES, outputs=(0, 1)),
    "bert_eager": hugging("BertModel", {**TEXT, "attn_implementation": "eager"}, IDS_AND_TYPES),
    "roberta": hugging("RobertaForMaskedLM", TEXT, IDS),
    "deberta": hugging(
        "DebertaModel",
        {**TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "legacy": False},
        IDS,
    ),
    "deberta_v2": hugging("DebertaV2Model", DEBERTA, IDS),
    "albert": hugging("AlbertModel", {**TEXT, "embedding_size": 32}, IDS_AND_TYPES, outputs=(0, 1)),
    "electra": hugging(
        "ElectraForSequenceClassification", {**TEXT, "embedding_size": 32}, IDS_AND_TYPES
    ),
    "xlnet": hugging("XLNetModel", XLNET, IDS, use_mems=False),
    "distilbert": hugging(
        "DistilBertModel",
        {"vocab_size": VOCABULARY, "n_layers": 2, "n_heads": 4, "dim": HIDDEN, "hidden_dim": 128},
        IDS,
    ),
    "mpnet": hugging("MPNetModel", TEXT, IDS),
    "funnel": hugging("FunnelModel", FUNNEL, IDS),
    "fnet": hugging("FNetModel", TEXT, {"input_ids": IDS["input_ids"]}),
    "squeezebert": hugging("SqueezeBertModel", {**TEXT, "embedding_size": HIDDEN}, IDS),
    "convbert": hugging("ConvBertModel", {**TEXT, "embedding_size": 32}, IDS),
    "mobilebert": hugging(
        "MobileBertModel",
        {**TEXT, "embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
        IDS,
    ),
    "modernbert": hugging(
        "ModernBertModel",
        {**TEXT, "local_attention": 8, "cls_token_id": 1, "sep_token_id": 2},
        IDS,
    ),
    "roformer": hugging("RoFormerModel", {**TEXT, "embedding_size": HIDDEN}, IDS),
    "esm": hugging(
        "EsmModel", {**TEXT, "position_embedding_type": "rotary", "mask_token_id": 3}, IDS
    ),
    "nystromformer": hugging(
        "NystromformerModel",
        {**TEXT, "num_landmarks": 4, "segment_means_seq_len": 12, "conv_kernel_size": 5},
        {"input_ids": IDS["input_ids"]},
    ),
    "layoutlm": hugging("LayoutLMModel", TEXT, {**IDS, "bbox": boxes(BATCH, LENGTH)}),
    "bigbird": hugging("BigBirdModel", {**TEXT, "attention_type": "original_full"}, IDS),
    "longformer": hugging("LongformerModel", {**TEXT, "attention_window": 4}, IDS),
    "canine": hugging(
        "CanineModel",
        {**SIZES, "num_hash_buckets": 64, "local_transformer_stride": 8, "downsampling_rate": 4},
        text_inputs(1, 32),
    ),
}
