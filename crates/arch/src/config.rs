//! One view of a model's settings, whether they come from GGUF metadata or from `config.json`.
//!
//! Settings go by their GGUF names without the architecture's prefix; a table, and a family's own additions to it, give the
//! Hugging Face name. Every number is checked here against a limit, once.

use kauri_formats::{Checkpoint, Metadata, Source, Value, checkpoint::Directory};
use serde_json::Value as Json;

use crate::families::{FAMILIES, Family};
use crate::name::{Name, Role};
use crate::shape::Pooling;

/// GGUF setting -> where `config.json` keeps it, first match wins; a dot goes into an object.
const HUGGING_FACE_KEYS: &[(&str, &[&str])] = &[
    ("activation", &["hidden_activation", "hidden_act", "activation_function", "mlp_hidden_act", "activation"]),
    ("attention_bias", &["attention_bias"]),
    ("attention.causal", &["is_causal"]),
    ("attention.head_count", &["num_attention_heads", "n_head", "n_heads"]),
    ("attention.head_count_kv", &["num_key_value_heads"]),
    ("attention.key_length", &["head_dim"]),
    ("attention.kv_lora_rank", &["kv_lora_rank"]),
    ("attention.layer_norm_epsilon", &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"]),
    ("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
    ("attention.q_lora_rank", &["q_lora_rank"]),
    ("attention.scale", &["attention_multiplier"]),
    ("attention.sliding_window", &["sliding_window"]),
    ("attention.value_length_mla", &["v_head_dim"]),
    ("attn_logit_softcapping", &["attn_logit_softcapping"]),
    ("block_count", &["num_hidden_layers", "n_layer", "n_layers"]),
    ("context_length", &["max_position_embeddings", "n_positions", "max_seq_len"]),
    ("embedding_length", &["hidden_size", "n_embd", "d_model"]),
    ("embedding_scale", &["embedding_multiplier"]),
    ("expert_count", &["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"]),
    ("expert_feed_forward_length", &["moe_intermediate_size"]),
    ("expert_gating_func", &["scoring_func", "score_function", "expert_selection_fn", "moe_router_activation_func"]),
    ("expert_group_count", &["n_group"]),
    ("expert_group_used_count", &["topk_group"]),
    ("expert_shared_count", &["n_shared_experts", "moe_num_shared_experts"]),
    ("expert_shared_feed_forward_length", &["shared_expert_intermediate_size", "shared_intermediate_size"]),
    ("expert_used_count", &["num_experts_per_tok", "moe_k"]),
    ("expert_weights_norm", &["norm_topk_prob"]),
    ("expert_weights_norm_min", &["moe_norm_min"]),
    ("expert_weights_scale", &["routed_scaling_factor"]),
    ("feed_forward_length", &["intermediate_size"]),
    ("final_logit_softcapping", &["final_logit_softcapping"]),
    ("logit_scale", &["logits_scaling"]),
    ("interleave_moe_layer_step", &["decoder_sparse_step", "moe_layer_interval"]),
    ("layer_types", &["layer_types"]),
    ("leading_dense_block_count", &["first_k_dense_replace", "moe_layer_start_index"]),
    ("max_window_layers", &["max_window_layers"]),
    ("mlp_bias", &["mlp_bias"]),
    ("nextn_predict_layers", &["num_nextn_predict_layers"]),
    ("partial_rotary_factor", &["partial_rotary_factor", "rope_parameters.partial_rotary_factor", "rope_pct"]),
    ("qk_nope_head_dim", &["qk_nope_head_dim"]),
    ("residual_scale", &["residual_multiplier"]),
    ("rope.dimension_count", &["qk_rope_head_dim"]),
    ("rotary_dim", &["rotary_dim"]),
    ("rope.freq_base", &["rope_theta", "rope_parameters.rope_theta"]),
    ("ssm.conv_kernel", &["mamba_d_conv", "conv_kernel"]),
    ("ssm.group_count", &["mamba_n_groups", "n_groups"]),
    ("ssm.head_dim", &["mamba_d_head", "mamba_head_dim", "head_dim"]),
    ("ssm.inner_size", &["mamba_d_ssm"]),
    ("ssm.state_size", &["mamba_d_state", "ssm_state_size", "state_size"]),
    ("ssm.time_step_rank", &["mamba_n_heads", "mamba_num_heads", "num_heads"]),
    ("tie_word_embeddings", &["tie_word_embeddings"]),
    ("use_parallel_residual", &["use_parallel_residual"]),
    ("use_qk_norm", &["use_qk_norm"]),
    ("use_sliding_window", &["use_sliding_window"]),
    ("vocab_size", &["vocab_size"]),
];

/// What can be wrong with a model's description. Every message names the family and the setting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No family of this name.
    #[error("unknown architecture {name:?}; kauri knows {known}")]
    UnknownFamily {
        /// What the file says.
        name: String,
        /// The names that would have been accepted.
        known: String,
    },
    /// The file does not say what it is.
    #[error("the model does not name its architecture: {key} is missing")]
    Unnamed {
        /// Where the name should be.
        key: &'static str,
    },
    /// A setting is absent.
    #[error("{family}: the setting {key} is missing")]
    Missing {
        /// The family.
        family: &'static str,
        /// The setting, by this file's name.
        key: String,
    },
    /// A setting has a value that makes no model.
    #[error("{family}: the setting {key} is {found}, expected {expected}")]
    Invalid {
        /// The family.
        family: &'static str,
        /// The setting, by this file's name.
        key: String,
        /// The value.
        found: String,
        /// What would have been accepted.
        expected: String,
    },
    /// A variant of the family that no shape here has.
    #[error("{family}: {what} is not supported")]
    Unsupported {
        /// The family.
        family: &'static str,
        /// The variant, by name.
        what: String,
    },
}

/// The settings and tensor names of one checkpoint, read as one family's.
pub struct Config<'a> {
    family: &'static Family,
    checkpoint: &'a Checkpoint,
    settings: Settings<'a>,
}

enum Settings<'a> {
    Gguf { metadata: &'a Metadata, prefix: &'a str },
    HuggingFace { directory: &'a Directory, prefix: &'static str, layers: &'static str },
}

/// One setting, of either source.
pub(crate) enum Setting<'a> {
    Gguf(&'a Value),
    Json(&'a Json),
}

impl<'a> Config<'a> {
    /// Finds the family that `checkpoint` names.
    pub(crate) fn new(checkpoint: &'a Checkpoint) -> Result<Self, Error> {
        let unknown = |name: &str, known: &dyn Fn(&'static Family) -> &'static [&'static str]| Error::UnknownFamily {
            name: name.to_owned(),
            known: FAMILIES.iter().flat_map(|family| known(family)).copied().collect::<Vec<_>>().join(", "),
        };
        let (family, settings) = match &checkpoint.source {
            Source::Gguf(metadata) => {
                let key = "general.architecture";
                let name = metadata.str(key).ok_or(Error::Unnamed { key })?;
                let family = FAMILIES.iter().find(|family| family.gguf.contains(&name));
                let family = family.ok_or_else(|| unknown(name, &|family| family.gguf))?;
                (*family, Settings::Gguf { metadata, prefix: name })
            }
            Source::Safetensors(directory) => {
                let key = "architectures in config.json";
                let classes = directory.config.get("architectures").and_then(Json::as_array);
                let name =
                    classes.and_then(|names| names.first()).and_then(Json::as_str).ok_or(Error::Unnamed { key })?;
                let family = FAMILIES.iter().find(|family| family.hugging_face.contains(&name));
                let family = family.ok_or_else(|| unknown(name, &|family| family.hugging_face))?;
                // Checkpoints of the bare body, without a head, leave the prefix out.
                let used = |prefix: &&str| checkpoint.tensors.keys().any(|name| name.starts_with(*prefix));
                let prefix = BODIES.iter().copied().find(used).unwrap_or_default();
                let inside = |layers: &&str| used(&format!("{prefix}{layers}").as_str());
                let layers = ["encoder.layer.", "encoder.layers.", "h.", "blocks."]
                    .into_iter()
                    .find(inside)
                    .unwrap_or("layers.");
                (*family, Settings::HuggingFace { directory, prefix, layers })
            }
        };
        Ok(Self { family, checkpoint, settings })
    }

    /// The family.
    pub fn family(&self) -> &'static Family {
        self.family
    }

    /// Whether the file is a GGUF, where some families store weights permuted or shifted.
    pub fn is_gguf(&self) -> bool {
        matches!(self.settings, Settings::Gguf { .. })
    }

    /// A whole number between `1` and `limit`.
    pub fn count(&self, key: &str, limit: u32) -> Result<u32, Error> {
        match self.optional_count(key, limit)? {
            Some(number) => Ok(number),
            None if self.setting(key).is_some() => {
                Err(self.invalid(key, "0", &format!("a whole number from 1 to {limit}")))
            }
            None => Err(self.missing(key)),
        }
    }

    /// A whole number between `1` and `limit`; none where the setting is missing or zero, which turns it off.
    pub fn optional_count(&self, key: &str, limit: u32) -> Result<Option<u32>, Error> {
        let Some(setting) = self.setting(key) else { return Ok(None) };
        let number = setting.as_u64();
        match number.and_then(|number| u32::try_from(number).ok()).filter(|&number| number <= limit) {
            Some(0) => Ok(None),
            Some(number) => Ok(Some(number)),
            None => Err(self.invalid(key, &setting.show(), &format!("a whole number up to {limit}"))),
        }
    }

    /// A finite number.
    pub fn number(&self, key: &str) -> Result<f32, Error> {
        self.optional_number(key)?.ok_or_else(|| self.missing(key))
    }

    /// A finite number, if the setting is there.
    pub fn optional_number(&self, key: &str) -> Result<Option<f32>, Error> {
        let Some(setting) = self.setting(key) else {
            return Ok(None);
        };
        match setting.as_f64() {
            Some(number) if (number as f32).is_finite() => Ok(Some(number as f32)),
            _ => Err(self.invalid(key, &setting.show(), "a finite number")),
        }
    }

    /// A number over zero, if the setting is there.
    pub fn optional_positive(&self, key: &str) -> Result<Option<f32>, Error> {
        match self.optional_number(key)? {
            Some(number) if number <= 0.0 => Err(self.invalid(key, &number.to_string(), "a number over zero")),
            number => Ok(number),
        }
    }

    /// The cap of a soft cap: a number over zero; none where the setting is missing or zero, which turns it off.
    pub fn soft_cap(&self, key: &str) -> Result<Option<f32>, Error> {
        match self.optional_number(key)? {
            Some(0.0) => Ok(None),
            _ => self.optional_positive(key),
        }
    }

    /// A truth value; `false` if the setting is not there.
    pub fn flag(&self, key: &str) -> Result<bool, Error> {
        match self.setting(key) {
            None => Ok(false),
            Some(Setting::Gguf(Value::Bool(value)) | Setting::Json(Json::Bool(value))) => Ok(*value),
            Some(setting) => Err(self.invalid(key, &setting.show(), "true or false")),
        }
    }

    /// Whole numbers of every layer, where the setting is a list of them.
    pub fn counts(&self, key: &str, layers: u32) -> Result<Option<Vec<u64>>, Error> {
        let Some(setting) = self.setting(key) else { return Ok(None) };
        let Some(list) = setting.list() else { return Ok(None) };
        if list.len() != layers as usize {
            return Err(self.invalid(key, &format!("a list of {}", list.len()), &format!("a list of {layers}")));
        }
        let found = list.into_iter().collect::<Option<Vec<u64>>>();
        found.map(Some).ok_or_else(|| self.invalid(key, &setting.show(), "a list of whole numbers"))
    }

    /// A truth value of every layer, where the setting is a list of them.
    pub fn flags(&self, key: &str, layers: u32) -> Result<Option<Vec<bool>>, Error> {
        match self.setting(key) {
            None => Ok(None),
            Some(Setting::Gguf(Value::Bools(flags))) if flags.len() == layers as usize => Ok(Some(flags.clone())),
            Some(setting) => Err(self.invalid(key, &setting.show(), &format!("a list of {layers} truth values"))),
        }
    }

    /// The kind of every layer, an index into `known`, where the configuration lists them in `layer_types`.
    pub fn layer_kinds(&self, layers: u32, known: &[&str]) -> Result<Option<Vec<usize>>, Error> {
        let Some(list) = self.json("layer_types") else { return Ok(None) };
        let kinds = list.as_array().filter(|kinds| kinds.len() == layers as usize);
        let expected = format!("a list of {layers} times {}", known.join(" or "));
        let kinds = kinds.ok_or_else(|| self.invalid("layer_types", &list.to_string(), &expected))?;
        let kind = |kind: &Json| {
            let index = known.iter().position(|known| kind.as_str() == Some(*known));
            index.ok_or_else(|| self.unsupported(format!("a layer of the type {kind}")))
        };
        kinds.iter().map(kind).collect::<Result<_, _>>().map(Some)
    }

    /// Whether each layer is one of those that a list of `config.json` names.
    pub fn listed(&self, key: &str, layers: u32) -> Result<Option<Vec<bool>>, Error> {
        let Some(list) = self.json(key) else { return Ok(None) };
        let wrong = || self.invalid(key, &list.to_string(), &format!("a list of layers under {layers}"));
        let mut listed = vec![false; layers as usize];
        for index in list.as_array().ok_or_else(wrong)? {
            let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
            *index.and_then(|index| listed.get_mut(index)).ok_or_else(wrong)? = true;
        }
        Ok(Some(listed))
    }

    /// A finite number of `config.json`, under its own name.
    pub fn json_number(&self, key: &str) -> Result<Option<f32>, Error> {
        let Some(stated) = self.json(key) else { return Ok(None) };
        let number = finite(stated);
        number.map(Some).ok_or_else(|| self.invalid(key, &stated.to_string(), "a finite number"))
    }

    /// A list of as many finite numbers of `config.json`, under its own name.
    pub fn json_numbers<const N: usize>(&self, key: &str) -> Result<Option<[f32; N]>, Error> {
        let Some(stated) = self.json(key) else { return Ok(None) };
        let numbers = stated.as_array().and_then(|list| list.iter().map(finite).collect::<Option<Vec<f32>>>());
        let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
        numbers.map(Some).ok_or_else(|| self.invalid(key, &stated.to_string(), &format!("a list of {N} numbers")))
    }

    /// How the rows of a text become one vector, where the model says it: by `pooling_type` of a GGUF, or by what
    /// sentence-transformers keeps beside a safetensors file.
    pub(crate) fn pooling(&self) -> Result<Option<Pooling>, Error> {
        let Settings::HuggingFace { directory, .. } = &self.settings else {
            return match self.setting("pooling_type").map(|setting| setting.as_u64()) {
                // What a classifier reads, its family knows.
                None | Some(Some(4)) => Ok(None),
                Some(Some(0)) => Ok(Some(Pooling::Each)),
                Some(Some(1)) => Ok(Some(Pooling::Mean)),
                Some(Some(2)) => Ok(Some(Pooling::First)),
                Some(Some(3)) => Ok(Some(Pooling::Last)),
                Some(other) => Err(self.unsupported(format!("the pooling type {other:?}"))),
            };
        };
        let modes = directory.pooling.iter().filter(|(key, value)| {
            key.starts_with("pooling_mode") && (value.as_bool() == Some(true) || value.is_string())
        });
        let modes: Vec<&str> = modes.map(|(key, value)| value.as_str().unwrap_or(key)).collect();
        match modes[..] {
            [] => Ok(None),
            ["pooling_mode_mean_tokens" | "mean"] => Ok(Some(Pooling::Mean)),
            ["pooling_mode_cls_token" | "cls"] => Ok(Some(Pooling::First)),
            ["pooling_mode_lasttoken" | "lasttoken"] => Ok(Some(Pooling::Last)),
            _ => Err(self.unsupported(format!("the pooling {}", modes.join(" and ")))),
        }
    }

    /// Text, if the setting is there.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        match self.setting(key)? {
            Setting::Gguf(value) => value.as_str(),
            Setting::Json(value) => value.as_str(),
        }
    }

    /// The setting of `config.json` at this path (dots go into objects); `None` in a GGUF or where it is null.
    pub(crate) fn json(&self, path: &str) -> Option<&'a Json> {
        let Settings::HuggingFace { directory, .. } = &self.settings else {
            return None;
        };
        // What also sees keeps the settings of its text apart.
        let text = directory.config.get("text_config").and_then(Json::as_object);
        text.into_iter().chain([&directory.config]).find_map(|settings| {
            let mut parts = path.split('.');
            let first = settings.get(parts.next()?)?;
            parts.try_fold(first, |value, part| value.get(part)).filter(|value| !value.is_null())
        })
    }

    pub(crate) fn setting(&self, key: &str) -> Option<Setting<'a>> {
        match &self.settings {
            Settings::Gguf { metadata, prefix } => metadata.get(&format!("{prefix}.{key}")).map(Setting::Gguf),
            Settings::HuggingFace { .. } => {
                self.hugging_face_keys(key).iter().find_map(|path| self.json(path)).map(Setting::Json)
            }
        }
    }

    /// How many rows the tensor `name` (canonical, whole) has, if it is there.
    pub(crate) fn rows_of(&self, name: &str) -> Option<u64> {
        self.checkpoint.tensors.get(&self.file_name(name)).and_then(|tensor| tensor.dims.first()).copied()
    }

    /// The tensor that this file keeps under the canonical (GGUF) name, with the dimensions it must have.
    pub fn matrix(&self, name: &str, rows: u32, columns: u32) -> Name {
        let dims = vec![u64::from(rows), u64::from(columns)];
        Name { tensor: self.file_name(name), dims, rows: None, step: 1, role: Role::Matrix }
    }

    /// A vector of `length` values.
    pub fn vector(&self, name: &str, length: u32, plus: f32) -> Name {
        let dims = vec![u64::from(length)];
        Name { tensor: self.file_name(name), dims, rows: None, step: 1, role: Role::Vector { plus } }
    }

    /// Part `index` of `count`, each of dimensions `dims`: a tensor of its own where the file's name has a place for the number,
    /// else a part of one that stacks them all. One dimension is a vector, two are a matrix.
    pub(crate) fn part(&self, name: &str, [index, count]: [u32; 2], dims: &[u32]) -> Name {
        let file_name = self.file_name(name);
        let tensor = file_name.replace(EACH, &index.to_string());
        let role = if dims.len() == 1 { Role::Vector { plus: 0.0 } } else { Role::Matrix };
        let mut dims: Vec<u64> = dims.iter().map(|&length| u64::from(length)).collect();
        if tensor != file_name {
            return Name { tensor, dims, rows: None, step: 1, role };
        }
        let (index, rows) = (u64::from(index), dims[0]);
        dims.insert(0, u64::from(count));
        Name { tensor, dims, rows: Some(index * rows..(index + 1) * rows), step: 1, role }
    }

    /// Whether the file has part `index`, as [`Self::part`] would name it.
    pub(crate) fn has_part(&self, name: &str, index: u32) -> bool {
        self.checkpoint.tensors.contains_key(&self.file_name(name).replace(EACH, &index.to_string()))
    }

    /// How the names of tensors begin that text needs nothing of: those of these layers, which only draft tokens, and what sees or
    /// hears.
    pub(crate) fn unused_names(&self, layers: std::ops::Range<u32>) -> Vec<String> {
        match &self.settings {
            Settings::Gguf { .. } => layers.map(|layer| format!("blk.{layer}.")).collect(),
            Settings::HuggingFace { prefix, .. } => {
                let apart = [format!("{prefix}mtp_"), "mtp.".to_owned()];
                let senses = SENSES.iter().map(|&start| start.to_owned());
                layers.map(|layer| format!("{prefix}layers.{layer}.")).chain(apart).chain(senses).collect()
            }
        }
    }

    /// Values of a tensor of these dimensions, kept as a vector of them all.
    pub fn values(&self, name: &str, dims: &[u32], role: Role) -> Name {
        let dims = dims.iter().copied().map(u64::from).collect();
        Name { tensor: self.file_name(name), dims, rows: None, step: 1, role }
    }

    /// Whether the file has the tensor with this canonical name.
    pub fn has(&self, name: &str) -> bool {
        self.checkpoint.tensors.contains_key(&self.file_name(name))
    }

    /// Every slot that the tables of names know, by its GGUF name without layer.
    pub(crate) fn known_tensors(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> =
            self.family.tensors.iter().chain(HUGGING_FACE_TENSORS).map(|(gguf, _)| *gguf).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The dimensions of a tensor by its canonical name, if the file has it; of all parts stacked, where each is one of its own.
    pub(crate) fn canonical_dims(&self, canonical: &str) -> Option<Vec<u64>> {
        let name = self.file_name(canonical);
        if let Some(tensor) = self.checkpoint.tensors.get(&name) {
            return Some(tensor.dims.clone());
        }
        let part = |index: usize| self.checkpoint.tensors.get(&name.replace(EACH, &index.to_string()));
        let first = part(0).filter(|_| name.contains(EACH))?;
        let count = (1..self.checkpoint.tensors.len()).take_while(|&index| part(index).is_some()).count() as u64 + 1;
        Some(std::iter::once(count).chain(first.dims.iter().copied()).collect())
    }

    /// An error about a variant that no shape has.
    pub fn unsupported(&self, what: impl Into<String>) -> Error {
        Error::Unsupported { family: self.family.name, what: what.into() }
    }

    pub(crate) fn invalid(&self, key: &str, found: &str, expected: &str) -> Error {
        let found = found.chars().take(80).collect();
        Error::Invalid { family: self.family.name, key: self.file_key(key), found, expected: expected.to_owned() }
    }

    pub(crate) fn missing(&self, key: &str) -> Error {
        Error::Missing { family: self.family.name, key: self.file_key(key) }
    }

    fn file_key(&self, key: &str) -> String {
        match &self.settings {
            Settings::Gguf { prefix, .. } => format!("{prefix}.{key}"),
            Settings::HuggingFace { .. } => {
                let paths = self.hugging_face_keys(key);
                let there = paths.iter().find(|path| self.json(path).is_some());
                there.or(paths.first()).map_or(key, |path| path).to_owned()
            }
        }
    }

    fn hugging_face_keys(&self, key: &str) -> &'static [&'static str] {
        let own = self.family.keys.iter().chain(HUGGING_FACE_KEYS).find(|(canonical, _)| *canonical == key);
        own.map_or(&[], |(_, paths)| paths)
    }

    /// `blk.3.attn_q.weight` in a GGUF; `model.layers.3.self_attn.q_proj.weight` in a safetensors directory.
    fn file_name(&self, canonical: &str) -> String {
        let Settings::HuggingFace { prefix, layers, .. } = &self.settings else {
            return canonical.to_owned();
        };
        let (layer, whole) = match canonical.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((layer, whole)) => (Some(layer), whole),
            None => (None, canonical),
        };
        let named = |wanted: &str| {
            let mut names = self.family.tensors.iter().chain(HUGGING_FACE_TENSORS);
            names.find(|(gguf, _)| *gguf == wanted).map(|(_, name)| *name)
        };
        // Some tensors have no suffix, in one format or the other.
        let (slot, suffix) = whole.rsplit_once('.').unwrap_or((whole, ""));
        let name = match named(whole) {
            Some(name) => name.to_owned(),
            None => format!("{}.{suffix}", named(slot).unwrap_or(slot)),
        };
        match layer {
            Some(layer) => format!("{prefix}{layers}{layer}.{name}"),
            None if slot == "output" && *prefix == "language_model.model." => format!("language_model.{name}"),
            None if slot == "output" || HEADS.iter().any(|head| name.starts_with(head)) => name,
            None => format!("{prefix}{name}"),
        }
    }
}

/// How the names of tensors begin that stand beside the body of a model, without its prefix.
const HEADS: &[&str] = &["classifier.", "dense_", "head.", "score."];

/// How the names of tensors begin that make something of images and sound.
const SENSES: &[&str] = &["model.visual.", "model.vision_tower.", "multi_modal_projector.", "vision_tower.", "visual."];

/// What stands before the names of a model's body; the first that a file uses.
const BODIES: &[&str] =
    &["model.language_model.", "language_model.model.", "transformer.", "model.", "backbone.", "bert.", "roberta."];

/// Where a Hugging Face name has the number of an expert.
const EACH: &str = "{}";

/// GGUF tensor -> Hugging Face tensor, without layer and suffix; the names that most families share.
const HUGGING_FACE_TENSORS: &[(&str, &str)] = &[
    ("attn_k", "self_attn.k_proj"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"),
    ("attn_kv_a_norm", "self_attn.kv_a_layernorm"),
    ("attn_kv_b", "self_attn.kv_b_proj"),
    ("attn_norm", "input_layernorm"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_q_a", "self_attn.q_a_proj"),
    ("attn_q_a_norm", "self_attn.q_a_layernorm"),
    ("attn_q_b", "self_attn.q_b_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_qkv", "self_attn.qkv_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("exp_probs_b.bias", "mlp.gate.e_score_correction_bias"),
    ("ffn_down", "mlp.down_proj"),
    ("ffn_down_exps", "mlp.experts.{}.down_proj"),
    ("ffn_down_shexp", "mlp.shared_experts.down_proj"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_gate_exps", "mlp.experts.{}.gate_proj"),
    ("ffn_gate_inp", "mlp.gate"),
    ("ffn_gate_shexp", "mlp.shared_experts.gate_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_up_exps", "mlp.experts.{}.up_proj"),
    ("ffn_up_shexp", "mlp.shared_experts.up_proj"),
    ("output", "lm_head"),
    ("output_norm", "norm"),
    ("ssm_a", "mamba.A_log"),
    ("ssm_conv1d", "mamba.conv1d"),
    ("ssm_d", "mamba.D"),
    ("ssm_dt.bias", "mamba.dt_bias"),
    ("ssm_in", "mamba.in_proj"),
    ("ssm_norm", "mamba.norm"),
    ("ssm_out", "mamba.out_proj"),
    ("token_embd", "embed_tokens"),
];

fn finite(value: &Json) -> Option<f32> {
    value.as_f64().map(|number| number as f32).filter(|number| number.is_finite())
}

impl Setting<'_> {
    pub(crate) fn as_u64(&self) -> Option<u64> {
        match self {
            // Some converters write one number per layer: accepted where all are equal but those of layers that have none.
            Self::Gguf(Value::Unsigneds(_) | Value::Signeds(_)) => {
                let counts: Vec<u64> = self.list()?.into_iter().collect::<Option<_>>()?;
                let most = counts.iter().copied().max();
                most.filter(|most| counts.iter().all(|count| count == most || *count == 0))
            }
            Self::Gguf(value) => value.as_u64(),
            Self::Json(value) => value.as_u64(),
        }
    }

    /// The parts of a list of numbers, those that are whole.
    fn list(&self) -> Option<Vec<Option<u64>>> {
        match self {
            Self::Gguf(Value::Unsigneds(values)) => Some(values.iter().copied().map(Some).collect()),
            Self::Gguf(Value::Signeds(values)) => Some(values.iter().map(|&value| u64::try_from(value).ok()).collect()),
            Self::Json(value) => value.as_array().map(|values| values.iter().map(Json::as_u64).collect()),
            Self::Gguf(_) => None,
        }
    }

    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Gguf(value) => value.as_f64(),
            Self::Json(value) => value.as_f64(),
        }
    }

    pub(crate) fn show(&self) -> String {
        match self {
            Self::Gguf(Value::Unsigned(number)) => number.to_string(),
            Self::Gguf(Value::Signed(number)) => number.to_string(),
            Self::Gguf(Value::Float(number)) => number.to_string(),
            Self::Gguf(Value::Bool(value)) => value.to_string(),
            Self::Gguf(Value::String(text)) => format!("{text:?}"),
            Self::Gguf(_) => "a list".to_owned(),
            Self::Json(value) => value.to_string(),
        }
    }
}
