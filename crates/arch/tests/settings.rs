//! Settings that make no model, or one that no shape has, are refused by name before any weight is read; those that change the
//! model are honoured.

use std::path::Path;

use kauri_arch::{Activation, Error, Ffn, Mixer, Moe, Name, RopeScaling, Scoring, Shape, identify};
use kauri_formats::{Checkpoint, Source};
use serde_json::{Value as Json, json};

/// The shape of a family of the repository's goldens with one setting of `config.json` replaced.
fn shape(family: &str, key: &str, value: Json) -> Result<Shape<Name>, Error> {
    shape_with(family, &std::iter::once((key.to_owned(), value)).collect())
}

/// The same with several.
fn shape_with(family: &str, settings: &serde_json::Map<String, Json>) -> Result<Shape<Name>, Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families").join(family);
    let mut checkpoint = Checkpoint::open(path).expect("the golden opens");
    let Source::Safetensors(directory) = &mut checkpoint.source else { panic!("a directory") };
    directory.config.extend(settings.clone());
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
fn bad_settings_of_layers_with_a_state_are_refused_by_name() {
    let kinds = |last: &str| json!(["conv", "conv", "full_attention", "conv", last]);
    let cases = [
        ("layer_types", kinds("mamba")),
        ("layer_types", json!(["conv"])),
        ("conv_L_cache", json!(1)),
        ("conv_L_cache", json!(9)),
        ("conv_L_cache", json!(null)),
        ("rope_parameters", json!({ "rope_type": "foo" })),
    ];
    for (key, value) in cases {
        let shown = format!("{key} = {value}");
        let error = shape("lfm2", key, value).map(|_| ()).expect_err(&shown).to_string();
        let names_it = ["a layer of the type \"mamba\"", "rope"].iter().any(|name| error.contains(name));
        assert!(error.starts_with("lfm2: ") && (error.contains(key) || names_it), "{shown}: {error}");
    }
    shape("lfm2", "layer_types", kinds("full_attention")).expect("a shape");
}

#[test]
fn bad_settings_of_selective_state_spaces_are_refused_by_name() {
    let cases = [
        ("falconmamba", "state_size", json!(257), "state_size"),
        ("falconmamba", "state_size", json!(0), "state_size"),
        ("falconmamba", "time_step_rank", json!("auto"), "time_step_rank"),
        ("falconmamba", "time_step_rank", json!(1 << 20), "time_step_rank"),
        ("falconmamba", "conv_kernel", json!(1), "conv_kernel"),
        ("falconmamba", "intermediate_size", json!(-1), "intermediate_size"),
        ("falconmamba", "mixer_rms_eps", json!(-1e-6), "mixer_rms_eps"),
        ("falconmamba", "hidden_act", json!("gelu"), "activation"),
        ("mamba", "layer_norm_epsilon", json!(2.0), "layer_norm_epsilon"),
        ("jamba", "mamba_dt_rank", json!(0), "mamba_dt_rank"),
        ("jamba", "mamba_expand", json!(1 << 30), "mamba_expand"),
        ("nemotronhmoe", "moe_latent_size", json!(8), "moe_latent_size"),
        ("nemotronhmoe", "layers_block_type", json!(["mamba", "moe", "attention", "foo"]), "foo"),
        ("nemotronhmoe", "layers_block_type", json!(["mamba"]), "one name for each"),
        ("nemotronhmoe", "hybrid_override_pattern", json!("ME*X"), "'X'"),
    ];
    for (family, key, value, part) in cases {
        let shown = format!("{family}: {key} = {value}");
        let error = shape(family, key, value).map(|_| ()).expect_err(&shown).to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{shown}: {error}");
    }
}

#[test]
fn settings_of_selective_state_spaces_are_honoured() {
    let mixer =
        |family: &str, key: &str, value: Json| match shape(family, key, value).expect("a shape").blocks.remove(0).mixer
        {
            Some(branch) => branch.op,
            None => panic!("a mixer"),
        };
    let Mixer::Selective(selective) = mixer("falconmamba", "mixer_rms_eps", json!(0.25)) else { panic!("falconmamba") };
    assert_eq!((selective.width, selective.state, selective.low.rows), (80, 8, 5));
    assert!(selective.norms.is_some_and(|norms| norms.iter().all(|norm| norm.epsilon == 0.25)));
    let Mixer::Selective(selective) = mixer("mamba", "intermediate_size", json!(null)) else { panic!("mamba") };
    assert!(selective.width == 64 && selective.norms.is_none());
    // A list of layers, and the same as letters.
    let kinds = |shape: Shape<Name>| {
        shape.blocks.iter().map(|block| (block.mixer.is_some(), block.ffn.is_some())).collect::<Vec<_>>()
    };
    let listed = kinds(shape("nemotronhmoe", "unknown", json!(0)).expect("a shape"));
    assert_eq!(listed, [(true, false), (false, true), (true, false), (false, true)]);
    assert_eq!(kinds(shape("nemotronhmoe", "hybrid_override_pattern", json!("ME*E")).expect("a shape")), listed);
}

#[test]
fn bad_settings_of_experts_are_refused_by_name() {
    let cases = [
        ("n_routed_experts", json!(0)),
        ("n_routed_experts", json!(5000)),
        ("n_routed_experts", json!("x")),
        ("num_experts_per_tok", json!(9)),
        ("num_experts_per_tok", json!(0)),
        ("moe_intermediate_size", json!(-1)),
        ("n_shared_experts", json!(1000)),
        ("n_group", json!(3)),
        ("n_group", json!(8)),
        ("first_k_dense_replace", json!("x")),
        ("mlp_only_layers", json!([3])),
        ("mlp_only_layers", json!(1)),
        ("norm_topk_prob", json!("x")),
        ("routed_scaling_factor", json!(-1.0)),
        ("scoring_func", json!("foo")),
        ("scoring_func", json!(7)),
    ];
    for (key, value) in cases {
        let shown = format!("{key} = {value}");
        let error = shape("glm4moe", key, value).map(|_| ()).expect_err(&shown).to_string();
        assert!(error.starts_with("glm4moe: "), "{shown}: {error}");
        assert!(error.contains(key) || error.contains("scores experts by"), "{shown}: {error}");
    }
}

#[test]
fn settings_of_experts_are_honoured() {
    let experts = |key: &str, value: Json| -> Vec<Option<Moe<Name>>> {
        let shape = shape("glm4moe", key, value).expect("a shape");
        shape.ffns().map(|ffn| ffn.moe().cloned()).collect()
    };
    let plain = experts("scoring_func", json!("sigmoid"));
    assert!(plain[0].is_none(), "a dense layer first");
    let moe = plain[1].as_ref().expect("experts");
    assert_eq!((moe.experts.len(), moe.chosen, moe.scoring, moe.scale), (8, 2, Scoring::Sigmoid, 1.5));
    assert!(moe.selection_bias.is_some() && moe.shared.is_some() && moe.normalised.is_some() && moe.groups.is_none());
    let tensor = &moe.experts[3].down.weight.tensor;
    assert_eq!(tensor, "model.layers.1.mlp.experts.3.down_proj.weight");

    let changed = experts("norm_topk_prob", json!(false));
    assert_eq!(changed[1].as_ref().expect("experts").normalised, None);
    let softmax = experts("scoring_func", json!("softmax"));
    assert_eq!(softmax[1].as_ref().expect("experts").scoring, Scoring::Softmax);
    let dense = experts("mlp_only_layers", json!([2]));
    assert!(dense[1].is_some() && dense[2].is_none());
    let alone = experts("n_shared_experts", json!(0));
    assert!(alone[1].as_ref().expect("experts").shared.is_none());
}

#[test]
fn settings_of_gpt_oss_are_honoured_or_refused_by_name() {
    let plain = shape("gptoss", "swiglu_limit", json!(5.0)).expect("a shape");
    let moe = plain.ffns().find_map(Ffn::moe).expect("experts");
    let cut = Activation::SiluCut { limit: 5.0, steepness: 1.702 };
    assert_eq!((moe.scoring, moe.experts[0].activation), (Scoring::SoftmaxOfChosen, cut));
    let up = &moe.experts[1].up.weight;
    assert_eq!((up.slot_rows(), up.step), (129..256, 2), "every second row of the second expert");
    let windows = |shape: &Shape<Name>| -> Vec<Option<u32>> {
        shape.mixers().filter_map(Mixer::attention).map(|attention| attention.window_tokens).collect()
    };
    assert_eq!(windows(&plain), [Some(16), None, Some(16), None]);
    let yarn = |changed: Json| {
        let mut parameters = json!({ "rope_type": "yarn", "rope_theta": 1e5, "factor": 8.0 });
        parameters.as_object_mut().expect("an object").extend(changed.as_object().expect("an object").clone());
        shape("gptoss", "rope_parameters", parameters).map(|shape| shape.ropes[0].scaling.clone())
    };
    let Ok(RopeScaling::Yarn { fast_turns, whole_pairs, attention_factor, .. }) = yarn(json!({})) else {
        panic!("YaRN")
    };
    assert_eq!((fast_turns, whole_pairs), (32.0, true));
    assert!((attention_factor - (0.1 * 8.0f32.ln() + 1.0)).abs() < 1e-6);
    for changed in [json!({ "truncate": 3 }), json!({ "factor": 0.0 }), json!({ "beta_fast": "x" })] {
        let key = changed.as_object().and_then(|object| object.keys().next().cloned()).expect("a key");
        let error = yarn(changed).map(|_| ()).expect_err("refused").to_string();
        assert!(error.starts_with("gpt-oss: ") && error.contains(&key), "{key}: {error}");
    }
    assert!(shape("qwen3", "quantization_config", json!({ "quant_method": "fp8" })).is_ok());
    let error = shape("gptoss", "quantization_config", json!({ "quant_method": "awq" })).map(|_| ()).expect_err("awq");
    assert!(error.to_string().contains("awq"), "{error}");
}

#[test]
fn layers_that_only_draft_tokens_are_left_out() {
    let shape = shape("glm4moe", "num_nextn_predict_layers", json!(1)).expect("a shape");
    assert_eq!(shape.blocks.len(), 3);
    assert!(shape.left_out.contains(&"model.layers.3.".to_owned()), "{:?}", shape.left_out);
}

#[test]
fn an_unknown_class_is_refused_with_the_known_ones() {
    let error = shape("qwen3", "architectures", json!(["FooForCausalLM"])).map(|_| ()).expect_err("unknown");
    let text = error.to_string();
    assert!(text.contains("FooForCausalLM") && text.contains("Qwen3ForCausalLM"), "{text}");
}

#[test]
fn forms_that_no_shape_has_are_refused_by_name() {
    let cases = [
        ("commandr", "use_qk_norm", json!(true), "command-r: a norm with weights for each head on queries and keys"),
        ("cohere2", "sliding_window", json!(null), "cohere2: the setting sliding_window is missing"),
        ("cohere2", "layer_types", json!(["full_attention"]), "cohere2: the setting layer_types"),
        (
            "exaone4",
            "layer_types",
            json!(vec!["chunked_attention"; 4]),
            "exaone4: a layer of the type \"chunked_attention\"",
        ),
        ("nemotron", "hidden_act", json!("xielu"), "nemotron: the activation \"xielu\""),
        ("phi2", "qk_layernorm", json!(true), "phi2: a norm on each head's query and key"),
        ("baichuan", "vocab_size", json!(125_696), "baichuan: Baichuan 2 from safetensors"),
        ("minicpm", "num_experts", json!(8), "minicpm: the form with experts"),
        ("minicpm", "scale_depth", json!(null), "minicpm: the setting scale_depth is missing"),
        ("stablelm", "use_parallel_residual", json!(true), "stablelm: the 12B form"),
        ("gptneox", "architectures", json!(["GPTNeoXForCausalLM"]), "unknown architecture \"GPTNeoXForCausalLM\""),
    ];
    for (family, key, value, expected) in cases {
        let from = if family == "gptneox" { "qwen3" } else { family };
        let shown = format!("{family}: {key} = {value}");
        let error = shape(from, key, value).map(|_| ()).expect_err(&shown).to_string();
        assert!(error.starts_with(expected), "{shown}: {error}");
    }
}

#[test]
fn layers_without_a_window_have_no_rope_where_the_family_says_so() {
    let ropes = |family: &str, key: &str, value: Json| -> Vec<(Option<usize>, Option<u32>)> {
        let shape = shape(family, key, value).expect("a shape");
        shape.mixers().filter_map(Mixer::attention).map(|layer| (layer.rope, layer.window_tokens)).collect()
    };
    let fourth = [(Some(0), Some(9)), (Some(0), Some(9)), (Some(0), Some(9)), (None, None)];
    assert_eq!(ropes("cohere2", "layer_types", json!(null)), fourth, "the fourth unless listed");
    assert_eq!(ropes("exaone4", "layer_types", json!(null)), fourth);
    let second = [(Some(0), Some(9)), (None, None), (Some(0), Some(9)), (None, None)];
    let kinds = json!(["sliding_attention", "full_attention", "sliding_attention", "full_attention"]);
    assert_eq!(ropes("cohere2", "layer_types", kinds), second);
    assert_eq!(ropes("exaone4", "sliding_window", json!(null)), [(Some(0), None); 4], "no windows, rope everywhere");
}

#[test]
fn settings_that_change_the_model_are_honoured() {
    let activation = |shape: &Shape<Name>| match shape.ffns().next().expect("a network") {
        Ffn::Dense(dense) => dense.activation,
        Ffn::Moe(_) | Ffn::Shifted(_) | Ffn::Apart(_) => panic!("not dense"),
    };
    let windows = |shape: &Shape<Name>| -> Vec<Option<u32>> {
        shape.mixers().filter_map(Mixer::attention).map(|attention| attention.window_tokens).collect()
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
    let attention = biased.mixers().find_map(Mixer::attention).expect("attention");
    assert!(attention.q.bias.is_some(), "a bias that must be there, so that its absence is noticed");
    let linear = json!({ "rope_type": "linear", "factor": 2.0, "rope_theta": 1e6 });
    let scaled = shape("qwen3", "rope_parameters", linear).expect("a shape");
    assert!(matches!(scaled.ropes[0].scaling, RopeScaling::Linear { factor: 2.0 }));
}

/// Settings as models were published with them, which their converted forms call otherwise or leave out.
#[test]
fn published_configurations_are_read() {
    let plain = shape("glm4moe", "norm_topk_prob", json!(true)).expect("a shape");
    let unsaid = shape("glm4moe", "norm_topk_prob", json!(null)).expect("a shape");
    let normalised = |shape: &Shape<Name>| shape.ffns().find_map(Ffn::moe).expect("experts").normalised;
    assert_eq!(normalised(&plain), normalised(&unsaid));

    let kinds = shape("lfm2", "full_attn_idxs", json!([1])).expect("a shape");
    let layers = kinds.blocks.len();
    let published = json!({ "full_attn_idxs": [1], "layer_types": null, "intermediate_size": null, "block_ff_dim": 48,
        "block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.5, "block_multiple_of": 32 });
    let shape = shape_with("lfm2", published.as_object().expect("settings")).expect("a shape");
    let attends: Vec<bool> = shape.mixers().map(|mixer| mixer.attention().is_some()).collect();
    assert_eq!(attends, (0..layers).map(|layer| layer == 1).collect::<Vec<_>>());
    // Two thirds of 48 times 1.5, rounded up to a multiple of 32.
    assert_eq!(shape.ffns().flat_map(Ffn::widths).max(), Some(64));
    let wrong = json!({ "layer_types": null, "full_attn_idxs": [99] });
    let error = shape_with("lfm2", wrong.as_object().expect("settings")).map(|_| ()).expect_err("refused").to_string();
    assert!(error.contains("full_attn_idxs is [99]"), "{error}");
}

/// What sees, and what drafts tokens, is left out by name; the settings of the text stand apart.
#[test]
fn the_text_of_what_also_sees_is_read() {
    for family in ["qwen2vl", "qwen3vl", "qwen35vl"] {
        let shape = shape(family, "from_outside", json!(1)).expect("a shape");
        for start in ["mtp.", "model.visual.", "visual."] {
            assert!(shape.left_out.iter().any(|left_out| left_out == start), "{family}: {:?}", shape.left_out);
        }
    }
}
