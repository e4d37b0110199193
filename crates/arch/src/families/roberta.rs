//! `RoBERTa` and XLM-RoBERTa: BERT whose places begin behind that of padding (Liu 2019, arXiv:1907.11692). A GGUF is BERT's.

use super::{Family, bert};

pub(super) static FAMILY: Family = Family {
    name: "roberta",
    gguf: &[],
    hugging_face: &[
        "CamembertModel",
        "RobertaForSequenceClassification",
        "RobertaModel",
        "XLMRobertaForMaskedLM",
        "XLMRobertaForSequenceClassification",
        "XLMRobertaModel",
    ],
    tensors: &[
        ("attn_k", "attention.self.key"),
        ("attn_output", "attention.output.dense"),
        ("attn_output_norm", "attention.output.LayerNorm"),
        ("attn_q", "attention.self.query"),
        ("attn_v", "attention.self.value"),
        ("cls", "classifier.dense"),
        ("cls.output", "classifier.out_proj"),
        ("ffn_down", "output.dense"),
        ("ffn_up", "intermediate.dense"),
        ("layer_output_norm", "output.LayerNorm"),
        ("position_embd", "embeddings.position_embeddings"),
        ("token_embd", "embeddings.word_embeddings"),
        ("token_embd_norm", "embeddings.LayerNorm"),
        ("token_types", "embeddings.token_type_embeddings"),
    ],
    keys: bert::KEYS,
    shape: |config| {
        let padding = config.json_number("pad_token_id")?.unwrap_or(1.0);
        bert::shape(config, padding.max(0.0) as u32 + 1)
    },
};
