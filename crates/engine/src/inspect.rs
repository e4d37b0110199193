//! What is in a model file, in numbers: nothing is computed and no device is needed.

use std::path::PathBuf;

use kauri_arch::{Attention, Block, Convolution, Ffn, GatedDelta, Mixer, Pooling, Shape, StateSpace};
use kauri_device::{CacheType, Weight};
use kauri_formats::{Source, Tensor};
use kauri_model::{fit, load, resolve};
use kauri_tokenizer::Tokenizer;

use crate::engine::chat_template;
use crate::error::Error;

/// A model in numbers.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The family.
    pub architecture: &'static str,
    /// The name that the file gives itself.
    pub name: Option<String>,
    /// `gguf` or `safetensors`.
    pub format: &'static str,
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Rows of the embedding table.
    pub vocab: u32,
    /// The longest trained context.
    pub context_tokens: u32,
    /// The mixers and networks of a block in words, with how many layers have each.
    pub structure: Vec<(String, usize)>,
    /// Values of all weights.
    pub parameters: u64,
    /// Values that one token is multiplied with.
    pub active_parameters: u64,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Bytes of weights that one decoded token reads.
    pub bytes_per_token: u64,
    /// Bytes of cache that one token adds however many there are, in F16: of layers without a window.
    pub kv_bytes_per_token: u64,
    /// The longest window of layers that have one.
    pub window_tokens: Option<u32>,
    /// Bytes of cache of layers with a window that a sequence has when it fills them, in F16.
    pub window_bytes_per_sequence: u64,
    /// Bytes of state that a sequence has whatever its length.
    pub state_bytes_per_sequence: u64,
    /// The kind of the vocabulary.
    pub tokenizer: String,
    /// Values of a vector that it makes of a text.
    pub vector: u32,
    /// How it pools the rows of a text.
    pub pooling: Pooling,
    /// Whether it judges documents.
    pub judges: bool,
    /// Whether it writes.
    pub writes: bool,
    /// The chat template.
    pub template: Option<String>,
    /// Every tensor.
    pub tensors: Vec<TensorLine>,
}

/// One tensor.
#[derive(Clone, Debug)]
pub struct TensorLine {
    /// The file's name for it.
    pub name: String,
    /// How it is stored.
    pub quant: &'static str,
    /// Outermost first.
    pub dims: Vec<u64>,
    /// Stored bytes.
    pub bytes: u64,
}

/// The files that the model called `name` consists of: one, the parts of a split one, or those of a directory; none for the model inside
/// this program.
///
/// # Errors
/// When it cannot be opened.
pub fn files(name: Option<&str>) -> Result<Vec<PathBuf>, Error> {
    Ok(resolve::open(name)?.paths)
}

/// Looks into the model called `name` (the default one where unset).
///
/// # Errors
/// As loading it would, but for the device.
pub fn inspect(name: Option<&str>) -> Result<Inspection, Error> {
    let checkpoint = resolve::open(name)?;
    let names = kauri_arch::identify(&checkpoint)?;
    let shape = load::weights(&checkpoint, &names)?;
    let tokenizer = Tokenizer::from_checkpoint(&checkpoint)?;
    let mut structure: Vec<(String, usize)> = Vec::new();
    for block in &shape.blocks {
        let words = describe(block);
        match structure.iter_mut().find(|(known, _)| *known == words) {
            Some((_, count)) => *count += 1,
            None => structure.push((words, 1)),
        }
    }
    let (format, title) = match &checkpoint.source {
        Source::Gguf(metadata) => ("gguf", metadata.str("general.name").map(str::to_owned)),
        Source::Safetensors(directory) => {
            ("safetensors", directory.config.get("_name_or_path").and_then(|name| Some(name.as_str()?.to_owned())))
        }
    };
    let tensors = checkpoint.tensors.iter().map(|(name, tensor)| TensorLine {
        name: name.clone(),
        quant: tensor.quant.name(),
        dims: tensor.dims.clone(),
        bytes: tensor.stored().map(|bytes| bytes.len() as u64).sum(),
    });
    let parameters = fit::parameters(&shape);
    Ok(Inspection {
        architecture: shape.family,
        name: title,
        format,
        layers: shape.blocks.len(),
        hidden: shape.hidden,
        vocab: shape.vocab,
        context_tokens: shape.context_tokens,
        structure,
        parameters,
        active_parameters: fit::active_parameters(&shape),
        bytes: checkpoint.tensors.values().flat_map(Tensor::stored).map(|bytes| bytes.len() as u64).sum(),
        bytes_per_token: fit::bytes_per_token(&shape),
        kv_bytes_per_token: fit::cache_bytes_per_token(&shape, CacheType::F16),
        window_tokens: shape.widest_window(),
        window_bytes_per_sequence: fit::window_bytes(&shape, CacheType::F16, u32::MAX),
        state_bytes_per_sequence: fit::state_bytes_per_sequence(&shape),
        tokenizer: format!("{}, {} tokens", tokenizer.kind(), tokenizer.vocab_size()),
        vector: vector(&shape),
        pooling: shape.summary.pooling,
        judges: shape.summary.judges,
        writes: shape.head.output.is_some(),
        template: chat_template(&checkpoint).map(str::to_owned),
        tensors: tensors.collect(),
    })
}

/// The vocabulary of the model called `name` (the default one where unset); a file with nothing else will do.
///
/// # Errors
/// When there is no such file, or its vocabulary cannot be used.
pub fn tokenizer(name: Option<&str>) -> Result<Tokenizer, Error> {
    Ok(Tokenizer::from_checkpoint(&resolve::open(name)?)?)
}

/// The source of the chat template of the model called `name` (the default one where unset), if it has one.
///
/// # Errors
/// When there is no such file.
pub fn template_source(name: Option<&str>) -> Result<Option<String>, Error> {
    Ok(chat_template(&resolve::open(name)?).map(str::to_owned))
}

/// Values of a vector that the model makes of a text.
fn vector(shape: &Shape<Weight>) -> u32 {
    let last = shape.summary.refinements.last().filter(|_| !shape.summary.judges);
    last.map_or(shape.hidden, |last| last.linear.rows)
}

/// A block in words.
fn describe(block: &Block<Weight>) -> String {
    let mixer = block.mixer().map(describe_mixer);
    let ffn = block.ffn.as_ref().map(|branch| match &branch.op {
        Ffn::Shifted(shifted) => format!("shifted feed-forward ({} wide)", shifted.op.up.rows),
        Ffn::Dense(dense) => {
            let gate = if dense.gate.is_some() { "gated " } else { "" };
            format!("{gate}feed-forward ({} wide, {:?})", dense.up.rows, dense.activation)
        }
        Ffn::Moe(moe) => {
            let width = moe.experts.first().map_or(0, |expert| expert.up.rows);
            let shared = moe.shared.as_ref().map(|shared| format!(", {} shared", shared.dense.up.rows));
            let shared = shared.unwrap_or_default();
            format!("{} experts, {} a token ({width} wide{shared})", moe.experts.len(), moe.chosen)
        }
        Ffn::Apart(_) => "experts on another device".to_owned(),
    });
    mixer.into_iter().chain(ffn).collect::<Vec<_>>().join(" + ")
}

fn describe_mixer(mixer: &Mixer<Weight>) -> String {
    match mixer {
        Mixer::Attention(attention) => describe_attention(attention),
        Mixer::Latent(latent) => {
            format!("latent attention ({} heads, a row of {} for all of them)", latent.heads, latent.row())
        }
        Mixer::ShortConv(short) => {
            let Convolution { channels, taps, .. } = &short.convolution;
            format!("short convolution ({channels} wide, {taps} tokens)")
        }
        Mixer::StateSpace(space) => describe_space(space),
        Mixer::Selective(selective) => {
            format!("selective state space ({} channels x {})", selective.width, selective.state)
        }
        Mixer::GatedDelta(delta) => {
            let GatedDelta { key_heads, value_heads, key_dim, value_dim, .. } = delta;
            format!("gated delta rule ({value_heads} heads of {key_dim} x {value_dim}, {key_heads} key heads)")
        }
        Mixer::TimeMix(mix) => format!("RWKV-7 time mixing ({} heads of {1} x {1})", mix.heads, mix.head_dim),
        Mixer::Parallel(both) => {
            format!("{} beside {}", describe_attention(&both.attention), describe_space(&both.space))
        }
    }
}

fn describe_attention(attention: &Attention<Weight>) -> String {
    let window = attention.window_tokens.map_or(String::new(), |window| format!(", window {window}"));
    let rope = match (attention.rope, attention.alibi) {
        (_, Some(_)) => ", linear biases",
        (None, None) => ", no rope",
        (Some(_), None) => "",
    };
    let both_ways = if attention.both_ways { ", both ways" } else { "" };
    let gated = if attention.gated { "gated " } else { "" };
    format!(
        "{gated}attention ({} heads, {} key-value heads of {}{window}{both_ways}{rope})",
        attention.heads, attention.kv_heads, attention.head_dim
    )
}

fn describe_space(space: &StateSpace<Weight>) -> String {
    let StateSpace { heads, head_dim, state, groups, .. } = space;
    format!("state space ({heads} heads of {head_dim} x {state}, {groups} groups)")
}
