//! Models that read: what of their settings is honoured, and what no shape has is refused by name before any weight is read.

use std::path::Path;

use kauri_arch::{Attention, Error, Mixer, Name, Pooling, Shape, identify};
use kauri_formats::{Checkpoint, Source};
use serde_json::{Value as Json, json};

/// The shape of a golden with one setting of `config.json`, or of its pooling, replaced.
fn shape(model: &str, key: &str, value: Json) -> Result<Shape<Name>, Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/encoders").join(model);
    let mut checkpoint = Checkpoint::open(path).expect("the golden opens");
    let Source::Safetensors(directory) = &mut checkpoint.source else { panic!("a directory") };
    let settings = if key.starts_with("pooling_") { &mut directory.pooling } else { &mut directory.config };
    settings.insert(key.to_owned(), value);
    identify(&checkpoint)
}

fn windows(shape: &Shape<Name>) -> Vec<Option<u32>> {
    let attentions = shape.mixers().filter_map(Mixer::attention);
    attentions.map(|Attention { window_tokens, both_ways, .. }| window_tokens.filter(|_| *both_ways)).collect()
}

#[test]
fn what_no_shape_has_is_refused_by_name() {
    let cases = [
        ("bert", "position_embedding_type", json!("relative_key"), "position embedding"),
        ("bert", "position_embedding_type", json!("alibi"), "position embedding"),
        ("bert", "is_decoder", json!(true), "the form that writes"),
        ("bert", "hidden_act", json!("mish"), "activation"),
        ("bert", "pooling_mode_max_tokens", json!(true), "pooling_mode_max_tokens"),
        ("bert", "pooling_mode_mean_tokens", json!(true), " and "),
        ("jinabert2", "position_embedding_type", json!("absolute"), "absolute"),
        ("jinabert2", "feed_forward_type", json!("reglu"), "reglu"),
        ("jinabert3", "rope_parameters", json!({ "rope_type": "foo" }), "foo"),
        ("xlmroberta", "position_embedding_type", json!("rotary"), "rotary"),
        ("xlmroberta", "pad_token_id", json!(200), "max_position_embeddings"),
        ("nomicbert", "prenorm", json!(true), "a norm before each branch"),
        ("nomicbert", "moe_every_n_layers", json!(2), "a mixture of experts"),
        ("nomicbert", "moe_every_n_layers", json!("x"), "moe_every_n_layers"),
        ("modernbert", "hidden_activation", json!("mish"), "activation"),
        ("modernbert", "layer_types", json!(["full_attention", "foo", "full_attention", "full_attention"]), "foo"),
        ("modernbertrank", "classifier_pooling", json!("max"), "classifier's pooling"),
        ("gemmaembedding", "use_bidirectional_attention", json!(false), "does not read both ways"),
    ];
    for (model, key, value, part) in cases {
        let shown = format!("{model}: {key} = {value}");
        let error = shape(model, key, value).map(|_| ()).expect_err(&shown).to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{shown}: {error}");
    }
}

#[test]
fn a_classifier_without_its_matrix_is_refused_by_name() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/encoders/bertrank");
    let mut checkpoint = Checkpoint::open(path).expect("the golden opens");
    checkpoint.tensors.retain(|name, _| !name.contains("pooler"));
    let error = identify(&checkpoint).map(|_| ()).expect_err("half a classifier").to_string();
    assert!(error.contains("without the matrix in front of it"), "{error}");
}

#[test]
fn settings_are_honoured() {
    let usual = |model: &str| shape(model, "unknown", json!(0)).expect("a shape");
    for model in ["bert", "xlmrobertarank", "nomicbert", "modernbert", "gemmaembedding", "jinabert2", "jinabert3"] {
        assert!(usual(model).reads_both_ways() && usual(model).head.output.is_none(), "{model}");
    }
    // Two rows of its table are those of padding.
    assert_eq!((usual("bert").context_tokens, usual("xlmroberta").context_tokens), (128, 128));
    assert_eq!(usual("bert").summary.pooling, Pooling::First);
    assert_eq!(usual("nomicbert").summary.pooling, Pooling::Mean);
    // Stated is the reach to both sides together, without the token itself.
    assert_eq!(windows(&usual("modernbert")), [None, Some(5), Some(5), None]);
    assert_eq!(windows(&shape("modernbert", "local_attention", json!(128)).expect("a shape"))[1], Some(65));
    // Most files of BERT say so; what says nothing is the same.
    let absolute = shape("bert", "position_embedding_type", json!("absolute")).expect("a shape");
    assert_eq!(absolute.embed.places, usual("bert").embed.places);
    let leans = |shape: Shape<Name>| {
        shape.mixers().filter_map(Mixer::attention).map(|attention| attention.alibi).collect::<Vec<_>>()
    };
    assert_eq!(leans(usual("jinabert2")), [Some(8.0); 3]);
    assert_eq!(leans(usual("bert")), [None; 3]);
    assert_eq!(windows(&usual("gemmaembedding")), [Some(5), Some(5), Some(5), Some(5), Some(5), None]);
    assert_eq!(usual("gemmaembedding").summary.refinements.len(), 2);
    let judge = usual("modernbertrank").summary;
    assert!(judge.judges && judge.pooling == Pooling::Mean && judge.refinements.len() == 2);
    // A file that was made to read may have no head; what its tokens see is stated.
    let reads = usual("qwen3embed");
    assert!(reads.head.output.is_none() && !reads.reads_both_ways() && reads.summary.pooling == Pooling::Last);
    assert!(usual("mistralembed").head.output.is_none());
    assert!(shape("qwen3embed", "is_causal", json!(false)).expect("a shape").reads_both_ways());
}
