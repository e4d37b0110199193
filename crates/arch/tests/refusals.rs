//! What no shape has is refused by every family, by the name of the setting and its value, before any weight is read.

use std::path::{Path, PathBuf};

use kauri_arch::{Ffn, identify};
use kauri_formats::{Checkpoint, Metadata, Source, Value};
use serde_json::{Value as Json, json};

/// The goldens of the repository, those of a directory and their GGUF files.
fn goldens() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families");
    let mut found = Vec::new();
    for directory in root.read_dir().expect("goldens").map(|entry| entry.expect("an entry").path()) {
        let name = directory.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let files = directory.read_dir().expect("files").map(|entry| entry.expect("an entry").path());
        let gguf = files.filter(|file| file.extension().is_some_and(|end| end == "gguf"));
        found.extend(gguf.map(|file| (name.clone(), file)));
        if directory.join("model.safetensors").exists() {
            found.push((name, directory));
        }
    }
    assert!(found.len() > 60, "{} goldens", found.len());
    found
}

/// Replaces settings of `config.json`, wherever it keeps those of its text.
fn set(checkpoint: &mut Checkpoint, settings: &[(&str, Json)]) {
    let Source::Safetensors(directory) = &mut checkpoint.source else { panic!("a directory") };
    for (key, value) in settings {
        directory.config.insert((*key).to_owned(), value.clone());
        if let Some(text) = directory.config.get_mut("text_config").and_then(Json::as_object_mut) {
            text.insert((*key).to_owned(), value.clone());
        }
    }
}

/// Replaces a setting of a GGUF file; the architecture stands before it unless it is a general one.
fn set_gguf(checkpoint: &mut Checkpoint, key: &str, value: &Value) {
    let Source::Gguf(metadata) = &mut checkpoint.source else { panic!("a GGUF") };
    let prefix = metadata.str("general.architecture").expect("an architecture").to_owned();
    let whole = if key.starts_with("general.") { key.to_owned() } else { format!("{prefix}.{key}") };
    let mut changed = Metadata::default();
    for (key, value) in metadata.iter().filter(|(key, _)| **key != whole) {
        changed.insert(key.to_owned(), value.clone());
    }
    changed.insert(whole, value.clone());
    *metadata = changed;
}

/// That a changed golden is refused in one line that names the value.
fn refused(name: &str, path: &Path, what: &str, value: &str, change: impl Fn(&mut Checkpoint)) {
    let mut checkpoint = Checkpoint::open(path).expect("the golden opens");
    change(&mut checkpoint);
    match identify(&checkpoint) {
        Ok(_) => panic!("{name}: {what} {value} went through ({})", path.display()),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(value) && !text.contains('\n'), "{name}: {what} {value}: {text}");
        }
    }
}

#[test]
fn every_family_refuses_what_no_shape_has() {
    for (name, path) in goldens() {
        let checkpoint = Checkpoint::open(&path).expect("the golden opens");
        let shape = identify(&checkpoint).unwrap_or_else(|error| panic!("{name}: {error}"));
        let has_experts = shape.ffns().any(|ffn| matches!(ffn, Ffn::Moe(_)));
        let has_rope = !shape.ropes.is_empty();
        if matches!(checkpoint.source, Source::Gguf(_)) {
            let text = Value::String("from_outside".to_owned());
            refused(&name, &path, "architecture", "from_outside", |file| set_gguf(file, "general.architecture", &text));
            // Factors that are there are taken, whatever they are called.
            let scaled =
                ["rope_freqs.weight", "rope_factors_long.weight"].map(|name| checkpoint.tensors.contains_key(name));
            if has_rope && scaled == [false; 2] {
                refused(&name, &path, "rope type", "from_outside", |file| set_gguf(file, "rope.scaling.type", &text));
            }
            if has_experts {
                let number = Value::Unsigned(77);
                refused(&name, &path, "scoring", "77", |file| set_gguf(file, "expert_gating_func", &number));
            }
            continue;
        }
        let classes = json!(["FromOutsideForCausalLM"]);
        refused(&name, &path, "class", "FromOutside", |file| set(file, &[("architectures", classes.clone())]));
        if has_rope {
            for key in ["rope_scaling", "rope_parameters"] {
                let rope = json!({ "rope_type": "from_outside", "rope_theta": 1e4, "factor": 2.0 });
                refused(&name, &path, key, "from_outside", |file| set(file, &[(key, rope.clone())]));
            }
        }
        let activation = json!("from_outside");
        let keys = ["activation", "activation_function", "hidden_act", "hidden_activation", "mlp_hidden_act"];
        let settings = keys.map(|key| (key, activation.clone()));
        refused(&name, &path, "activation", "from_outside", |file| set(file, &settings));
        let norm = json!("from_outside");
        for key in ["norm_type", "normalization_function", "position_embedding_type"] {
            refused(&name, &path, key, "from_outside", |file| set(file, &[(key, norm.clone())]));
        }
        if has_experts {
            let scoring = json!("from_outside");
            let keys = ["expert_selection_fn", "moe_router_activation_func", "score_function", "scoring_func"];
            let settings = keys.map(|key| (key, scoring.clone()));
            refused(&name, &path, "scoring", "from_outside", |file| set(file, &settings));
        }
    }
}

/// Linear biases of any size, and forms that have none where a family's scores need them.
#[test]
fn biases_on_scores_that_make_no_model_are_refused_by_name() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families/mpt");
    let file = directory.join("model-bf16.gguf");
    for (value, shown) in [
        (Value::Float(-8.0), "-8"),
        (Value::Float(f64::NAN), "max_alibi_bias"),
        (Value::Float(1e30), "max_alibi_bias"),
        (Value::Float(64.5), "64.5"),
        (Value::String("eight".to_owned()), "eight"),
        (Value::Float(0.0), "without alibi"),
    ] {
        refused("mpt", &file, "a bias", shown, |file| set_gguf(file, "attention.max_alibi_bias", &value));
    }
    refused("mpt", &file, "a limit", "clip_qkv", |file| set_gguf(file, "attention.clamp_kqv", &Value::Float(6.0)));
    let usual = json!({ "alibi": true, "alibi_bias_max": 8 });
    for (key, value, shown) in [
        ("alibi", json!(false), "without alibi"),
        ("alibi_bias_max", json!(65), "65"),
        ("alibi_bias_max", json!("x"), "attn_config.alibi_bias_max"),
        ("clip_qkv", json!(8), "clip_qkv"),
        ("softmax_scale", json!(0.5), "softmax_scale"),
    ] {
        let mut settings = usual.clone();
        settings[key] = value;
        refused("mpt", &directory, key, shown, |file| set(file, &[("attn_config", settings.clone())]));
    }
}
