"""Speech, sound and time series: strided convolutions in one dimension, then a transformer."""

from __future__ import annotations

from wild.architecture import Architecture
from wild.hugging import HIDDEN, SIZES, VOCABULARY, hugging
from wild.text_pairs import BART
from wild.values import integers, normal, padded, uniform

SAMPLES = 400
WAVE = {"input_values": normal(2, SAMPLES)}
MASKED_WAVE = {**WAVE, "attention_mask": padded(2, SAMPLES)}
WAVE2VEC = {
    **SIZES,
    "vocab_size": 32,
    "conv_dim": [32, 32, 32],
    "conv_stride": [5, 2, 2],
    "conv_kernel": [10, 3, 3],
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "num_feat_extract_layers": 3,
}
FRAMES = 32

SPEECH: dict[str, Architecture] = {
    "whisper": hugging(
        "WhisperForConditionalGeneration",
        {**BART, "num_mel_bins": 16, "max_source_positions": FRAMES // 2},
        {
            "input_features": normal(1, 16, FRAMES),
            "decoder_input_ids": integers(1, 5, low=3, high=VOCABULARY),
        },
        use_cache=False,
    ),
    "wav2vec2": hugging("Wav2Vec2ForCTC", WAVE2VEC, WAVE),
    "wav2vec2_masked": hugging(
        "Wav2Vec2Model",
        {**WAVE2VEC, "feat_extract_norm": "layer", "do_stable_layer_norm": True},
        MASKED_WAVE,
    ),
    "wav2vec2_conformer": hugging(
        "Wav2Vec2ConformerModel", {**WAVE2VEC, "conv_depthwise_kernel_size": 7}, WAVE
    ),
    "hubert": hugging("HubertModel", WAVE2VEC, WAVE),
    "wavlm": hugging("WavLMModel", {**WAVE2VEC, "num_buckets": 32}, WAVE),
    "data2vec_audio": hugging("Data2VecAudioModel", WAVE2VEC, WAVE),
    "sew": hugging("SEWModel", WAVE2VEC, WAVE),
    "speech_to_text": hugging(
        "Speech2TextForConditionalGeneration",
        {**BART, "conv_channels": 32, "input_feat_per_channel": 16, "max_target_positions": 64},
        {
            "input_features": normal(1, FRAMES, 16),
            "decoder_input_ids": integers(1, 5, low=3, high=VOCABULARY),
        },
        use_cache=False,
    ),
    "ast": hugging(
        "ASTModel",
        {**SIZES, "max_length": 64, "num_mel_bins": 32},
        {"input_values": normal(1, 64, 32)},
    ),
    "encodec_encoder": hugging(
        "EncodecModel",
        {
            "num_filters": 8,
            "hidden_size": 16,
            "codebook_dim": 16,
            "codebook_size": 16,
            "upsampling_ratios": [4, 2],
        },
        {"input_values": normal(1, 1, 320)},
        outputs=("audio_values",),
    ),
    "univnet": hugging(
        "UnivNetModel",
        {
            "model_in_channels": 8,
            "model_hidden_channels": 8,
            "num_mel_bins": 12,
            "kernel_predictor_hidden_channels": 8,
        },
        {"input_features": normal(1, 6, 12), "noise_sequence": normal(1, 6, 8)},
    ),
    "patchtst": hugging(
        "PatchTSTForPrediction",
        {
            "num_input_channels": 3,
            "context_length": 32,
            "patch_length": 8,
            "patch_stride": 4,
            "d_model": 32,
            "ffn_dim": 64,
            "num_hidden_layers": 2,
            "loss": "mse",
        },
        {"past_values": normal(2, 32, 3)},
        outputs=("prediction_outputs",),
    ),
    "patchtsmixer": hugging(
        "PatchTSMixerForPrediction",
        {"context_length": 32, "num_input_channels": 3, "d_model": 16, "loss": "mse"},
        {"past_values": normal(2, 32, 3)},
        outputs=("prediction_outputs",),
    ),
    "decision_transformer": hugging(
        "DecisionTransformerModel",
        {"state_dim": 5, "act_dim": 3, "hidden_size": HIDDEN, "n_layer": 2, "n_head": 4},
        {
            "states": normal(2, 6, 5),
            "actions": normal(2, 6, 3),
            "returns_to_go": uniform(2, 6, 1),
            "timesteps": integers(2, 6, high=20),
            "attention_mask": padded(2, 6),
        },
        outputs=("action_preds", "state_preds"),
    ),
}
