//! Settings that make no model, or one that no shape has, are refused by name before any weight is read; those that change the
//! model are honoured.

use std::path::Path;

use kauri_arch::{Activation, Error, Ffn, Mixer, Name, RopeScaling, Shape, identify};
use kauri_formats::{Checkpoint, Source};
use serde_json::{Value as Json, json};

/// The shape of a family of the repository's goldens with one setting of `config.json` replaced.
fn shape(family: &str, key: &str, value: Json) -> Result<Shape<Name>, Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families").join(family);
    let mut checkpoint = Checkpoint::open(path).expect("the golden opens");
    let Source::Safetensors(directory) = &mut checkpoint.source else { panic!("a directory") };
    directory.config.insert(key.to_owned(), value);
    identify(&checkpoint)
}

#[test]
fn bad_settings_are_refused_by_name() {
    let cases = [
        ("num_hidden_layers", json!(-1)),
        ("num_hidden_layers", json!(0)),
        ("num_hidden_layers", json!("x")),
        ("num_hidden_layers", json!(1_000_000_000)),
        ("num_attention_heads", json!(3)),
        ("hidden_size", json!(2.5)),
        ("rms_norm_eps", json!(-1.0)),
        ("rope_parameters", json!(3)),
        ("rope_parameters", json!({ "rope_type": 3 })),
        ("rope_parameters", json!({ "rope_type": "foo" })),
        ("rope_parameters", json!({ "rope_type": "linear", "factor": -1.0 })),
        ("rope_parameters", json!({ "rope_theta": 0.0 })),
        ("rope_scaling", json!("x")),
        ("hidden_act", json!("x")),
        ("hidden_act", json!(3)),
        ("layer_types", json!("x")),
        ("layer_types", json!(["full_attention"])),
        ("layer_types", json!(["full_attention", "foo", "full_attention"])),
        ("tie_word_embeddings", json!("x")),
        ("attention_bias", json!(1)),
        ("quantization_config", json!({ "quant_method": "gptq" })),
    ];
    for (key, value) in cases {
        let shown = format!("{key} = {value}");
        let error = shape("qwen3", key, value).map(|_| ()).expect_err(&shown).to_string();
        let names_it = ["num_key_value_heads", "rope", "factor", "gptq", "activation", "layer of the type"];
        assert!(error.starts_with("qwen3: "), "{shown}: {error}");
        assert!(error.contains(key) || names_it.iter().any(|name| error.contains(name)), "{shown}: {error}");
        assert!(!error.contains('\n'), "{shown}: {error}");
    }
}

#[test]
fn an_unknown_class_is_refused_with_the_known_ones() {
    let error = shape("qwen3", "architectures", json!(["FooForCausalLM"])).map(|_| ()).expect_err("unknown");
    let text = error.to_string();
    assert!(text.contains("FooForCausalLM") && text.contains("Qwen3ForCausalLM"), "{text}");
}

#[test]
fn settings_that_change_the_model_are_honoured() {
    let activation = |shape: &Shape<Name>| match &shape.blocks[0].ffn.op {
        Ffn::Dense(dense) => dense.activation,
        Ffn::Moe(_) => panic!("experts"),
    };
    let windows = |shape: &Shape<Name>| -> Vec<Option<u32>> {
        let window = |Mixer::Attention(attention): &Mixer<Name>| attention.window_tokens;
        shape.blocks.iter().map(|block| window(&block.mixer.op)).collect()
    };
    let plain = shape("qwen3", "hidden_act", json!("silu")).expect("a shape");
    assert_eq!((activation(&plain), windows(&plain)), (Activation::Silu, vec![None; 3]));
    let gelu = shape("qwen3", "hidden_act", json!("gelu")).expect("a shape");
    assert_eq!(activation(&gelu), Activation::Gelu);
    let all = shape("phi3", "sliding_window", json!(7)).expect("a shape");
    assert_eq!(windows(&all), [Some(7); 3]);
    let off = shape("phi3", "sliding_window", json!(0)).expect("a shape");
    assert_eq!(windows(&off), [None; 3], "zero turns it off");
    let biased = shape("qwen3", "attention_bias", json!(true)).expect("a shape");
    let Mixer::Attention(attention) = &biased.blocks[0].mixer.op;
    assert!(attention.q.bias.is_some(), "a bias that must be there, so that its absence is noticed");
    let linear = json!({ "rope_type": "linear", "factor": 2.0, "rope_theta": 1e6 });
    let scaled = shape("qwen3", "rope_parameters", linear).expect("a shape");
    assert!(matches!(scaled.ropes[0].scaling, RopeScaling::Linear { factor: 2.0 }));
}
