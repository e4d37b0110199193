//! The parts that most families are made of, read from a [`Config`]: a family's file says only where it differs.

use kauri_formats::Value;
use kauri_formats::safetensors::SCALED_METHODS;
use serde_json::Value as Json;

use crate::config::{Config, Error, Setting};
use crate::encoder::summary;
use crate::name::Name;
use crate::shape::{
    Activation, Attention, Block, Branch, Dense, Embed, Factors, Ffn, Head, Linear, Mixer, Norm, NormKind, Pooling,
    Rope, RopeScaling, RopeStyle, Shape, Wiring,
};

// Limits on a description from outside. The largest open models are within a quarter of each.
pub(crate) const HIDDEN_MAX: u32 = 1 << 17;
const LAYERS_MAX: u32 = 1 << 10;
/// The largest exponent of linear biases: with it a head sees its own token and little else.
const ALIBI_MAX: f32 = 64.0;
const HEADS_MAX: u32 = 1 << 11;
pub(crate) const HEAD_DIM_MAX: u32 = 1 << 11;
pub(crate) const FFN_MAX: u32 = 1 << 20;
const VOCAB_MAX: u32 = 1 << 21;
const CONTEXT_MAX: u32 = 1 << 28;
/// Most tokens that an output of a convolution sees.
pub const TAPS_MAX: u32 = 8;

/// The numbers of an ordinary decoder.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// Width of the residual stream.
    pub hidden: u32,
    /// How many blocks.
    pub layers: u32,
    /// How many more the file has, which only draft tokens.
    pub draft_layers: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Width of the feed-forward network.
    pub ffn: u32,
    /// Rows of the embedding table.
    pub vocab: u32,
    /// Longest trained context.
    pub context_tokens: u32,
    /// The norm of the family and what it adds under the root.
    pub norm: NormKind,
    /// Added under the root.
    pub epsilon: f32,
    /// What norm weights leave out in this file: one, where they are stored around zero.
    pub norm_plus: f32,
    /// The activation that the configuration names, if it names one.
    pub activation: Option<Activation>,
    /// The window of windowed layers.
    pub window_tokens: Option<u32>,
    /// Which layers are windowed, where the configuration lists them.
    pub windowed: Option<Vec<bool>>,
}

/// One layer of a family being described.
pub struct Layer<'a> {
    /// Which, from 0.
    pub index: u32,
    pub(crate) config: &'a Config<'a>,
    pub(crate) numbers: &'a Numbers,
}

impl Numbers {
    /// Reads the settings that every decoder has; RMS norms stored as they are.
    pub fn read(config: &Config<'_>) -> Result<Self, Error> {
        let numbers = Self::hybrid(config)?;
        let windowed = config.layer_kinds(numbers.layers, &["full_attention", "sliding_attention"])?;
        Ok(Self {
            window_tokens: config.optional_count("attention.sliding_window", u32::MAX)?,
            windowed: windowed.map(|kinds| kinds.iter().map(|&kind| kind == 1).collect()),
            ..numbers
        })
    }

    /// The same, knowing where the windows are if there are any: as listed, else on all layers but the last of each so many,
    /// a number that the configuration states or is the `usual` one.
    pub fn with_windows(self, config: &Config<'_>, usual: u32) -> Result<Self, Error> {
        const KEY: &str = "attention.sliding_window_pattern";
        if self.windowed.is_some() || self.window_tokens.is_none() {
            return Ok(self);
        }
        let windowed = if let Some(Setting::Gguf(Value::Bools(_))) = config.setting(KEY) {
            config.flags(KEY, self.layers)?
        } else {
            let period = config.optional_count(KEY, LAYERS_MAX)?.unwrap_or(usual);
            Some((1..=self.layers).map(|number| number % period != 0).collect())
        };
        Ok(Self { windowed, ..self })
    }

    /// Those of a decoder some of whose layers have no attention; the kinds of its layers are not looked at.
    pub fn hybrid(config: &Config<'_>) -> Result<Self, Error> {
        let numbers = Self::attending(config, None)?;
        Ok(Self { ffn: config.count("feed_forward_length", FFN_MAX)?, ..numbers })
    }

    /// The same where every network is one of experts, and none has a width of its own.
    pub fn hybrid_of_experts(config: &Config<'_>) -> Result<Self, Error> {
        Self::attending(config, None)
    }

    /// Those of a decoder whose networks are `times` as wide as the stream unless it says otherwise; the context and the number of
    /// key-value heads where it does not state them.
    pub fn of_width(
        config: &Config<'_>,
        times: u32,
        usual_context_tokens: Option<u32>,
        usual_kv_heads: Option<u32>,
    ) -> Result<Self, Error> {
        let numbers = Self::attending(config, usual_context_tokens)?;
        let ffn = config.optional_count("feed_forward_length", FFN_MAX)?;
        let stated = config.setting("attention.head_count_kv").is_some();
        let kv_heads = usual_kv_heads.filter(|_| !stated).unwrap_or(numbers.kv_heads);
        Ok(Self { ffn: ffn.unwrap_or(times * numbers.hidden), kv_heads, ..numbers })
    }

    /// Those of a decoder with attention, but for the width of its networks.
    fn attending(config: &Config<'_>, usual_context_tokens: Option<u32>) -> Result<Self, Error> {
        let numbers = Self::body(config, usual_context_tokens)?;
        let (hidden, heads) = (numbers.hidden, config.count("attention.head_count", HEADS_MAX)?);
        let kv_heads = config.optional_count("attention.head_count_kv", HEADS_MAX)?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of {heads}, the number of query heads");
            return Err(config.invalid("attention.head_count_kv", &kv_heads.to_string(), &expected));
        }
        let latent = config.setting("attention.kv_lora_rank").is_some();
        let head_dim = match config.optional_count("attention.key_length", HEAD_DIM_MAX)? {
            Some(head_dim) => head_dim,
            // Latent attention has widths of its own.
            None if hidden.is_multiple_of(heads) || latent => hidden.div_ceil(heads),
            None => {
                let expected = format!("a divisor of {hidden}, the width of the residual stream");
                return Err(config.invalid("attention.head_count", &heads.to_string(), &expected));
            }
        };
        let value_length = config.optional_count("attention.value_length", HEAD_DIM_MAX)?;
        if !latent && value_length.is_some_and(|length| length != head_dim) {
            return Err(config.unsupported("attention with values of another width than keys"));
        }
        Ok(Self { heads, kv_heads, head_dim, ..numbers })
    }

    /// Those of a decoder without attention and feed-forward networks; `usual_context_tokens` where no context is stated.
    pub fn body(config: &Config<'_>, usual_context_tokens: Option<u32>) -> Result<Self, Error> {
        config.flag("attention_bias")?;
        config.flag("mlp_bias")?;
        config.flag("use_qk_norm")?;
        if let Some(method) = config.json("quantization_config") {
            let method = method.get("quant_method").and_then(Json::as_str).unwrap_or("unknown");
            // Of one, some families know where the parts are; of others, whoever reads the file has put them together.
            let is_known =
                SCALED_METHODS.contains(&method) || method == "mxfp4" && config.has("blk.0.ffn_down_exps.blocks");
            if !is_known {
                return Err(config.unsupported(format!("a safetensors model quantised by {method:?}")));
            }
        }
        let hidden = config.count("embedding_length", HIDDEN_MAX)?;
        check_kinds(config)?;
        let (norm, key) = match config.setting("attention.layer_norm_rms_epsilon") {
            Some(_) => (NormKind::Rms, "attention.layer_norm_rms_epsilon"),
            None => (NormKind::Layer, "attention.layer_norm_epsilon"),
        };
        let epsilon = config.number(key)?;
        if !(0.0..=1.0).contains(&epsilon) {
            return Err(config.invalid(key, &epsilon.to_string(), "a number from 0 to 1"));
        }
        // A GGUF need not say it; a configuration that contradicts its own table fails on the table's dimensions.
        let rows = config.rows_of("token_embd.weight").filter(|_| config.is_gguf());
        let rows = rows.and_then(|rows| u32::try_from(rows).ok()).filter(|&rows| rows > 0 && rows <= VOCAB_MAX);
        let vocab = rows.map_or_else(|| config.count("vocab_size", VOCAB_MAX), Ok)?;
        let all_layers = config.count("block_count", LAYERS_MAX)?;
        let draft_layers = config.optional_count("nextn_predict_layers", LAYERS_MAX)?.unwrap_or(0);
        // A GGUF counts them with the others.
        let layers = if config.is_gguf() { all_layers.saturating_sub(draft_layers) } else { all_layers };
        if layers == 0 {
            let expected = format!("fewer than {all_layers}, the number of layers");
            return Err(config.invalid("nextn_predict_layers", &draft_layers.to_string(), &expected));
        }
        let context_tokens = match config.optional_count("context_length", CONTEXT_MAX)?.or(usual_context_tokens) {
            Some(context_tokens) => context_tokens,
            None => config.count("context_length", CONTEXT_MAX)?,
        };
        Ok(Self {
            hidden,
            layers,
            draft_layers,
            heads: 0,
            kv_heads: 0,
            head_dim: 0,
            ffn: 0,
            vocab,
            context_tokens,
            norm,
            epsilon,
            norm_plus: 0.0,
            activation: activation(config)?,
            window_tokens: None,
            windowed: None,
        })
    }
}

/// Settings that name a kind of something whose other kinds no family here has.
fn check_kinds(config: &Config<'_>) -> Result<(), Error> {
    const NORMS: &[&str] = &["layernorm", "layer_norm", "low_precision_layernorm", "rms_norm", "rmsnorm"];
    // Those of which a family has one, which looks at it again.
    let is_own = config.family().keys.iter().any(|(key, _)| *key == "position_embedding_type");
    let positions: &[&str] = if is_own { &["absolute", "alibi", "nope", "rope"] } else { &["nope", "rope"] };
    let known: [(&str, &[&str]); 3] =
        [("norm_type", NORMS), ("normalization_function", NORMS), ("position_embedding_type", positions)];
    for (key, known) in known {
        let stated = config.json(key);
        if let Some(stated) = stated.filter(|stated| stated.as_str().is_none_or(|stated| !known.contains(&stated))) {
            return Err(config.invalid(key, &stated.to_string(), &known.join(" or ")));
        }
    }
    Ok(())
}

/// The activation that the configuration names; a GGUF leaves it to the family.
fn activation(config: &Config<'_>) -> Result<Option<Activation>, Error> {
    let Some(setting) = config.setting("activation") else { return Ok(None) };
    match config.text("activation") {
        Some("silu" | "swish") => Ok(Some(Activation::Silu)),
        Some("gelu_pytorch_tanh" | "gelu_new" | "gelu_tanh") => Ok(Some(Activation::GeluTanh)),
        Some("gelu") => Ok(Some(Activation::Gelu)),
        Some("relu2" | "relu_squared" | "sqrelu") => Ok(Some(Activation::ReluSquared)),
        Some(other) => Err(config.unsupported(format!("the activation {other:?}"))),
        None => Err(config.invalid("activation", &setting.show(), "the name of an activation")),
    }
}

/// A decoder of blocks that `block` describes, with a tied or separate head.
pub fn decoder(
    config: &Config<'_>,
    numbers: &Numbers,
    ropes: Vec<Rope<Name>>,
    block: impl Fn(&Layer<'_>) -> Result<Block<Name>, Error>,
) -> Result<Shape<Name>, Error> {
    let blocks = (0..numbers.layers).map(|index| block(&Layer { index, config, numbers })).collect::<Result<_, _>>()?;
    let table = config.matrix("token_embd.weight", numbers.vocab, numbers.hidden);
    // A configuration that says so shares the embedding table; where nothing is said, a file without a head.
    let unsaid = config.is_gguf() || config.setting("tie_word_embeddings").is_none();
    let tied = if unsaid { !config.has("output.weight") } else { config.flag("tie_word_embeddings")? };
    let summary = summary(config, numbers, Pooling::Last)?;
    // A file made to read leaves it out.
    let reads = !tied && !config.has("output.weight") && (summary.judges || config.pooling()?.is_some());
    let output = Linear {
        rows: numbers.vocab,
        columns: numbers.hidden,
        weight: if tied { table.clone() } else { config.matrix("output.weight", numbers.vocab, numbers.hidden) },
        bias: config.has("output.bias").then(|| config.vector("output.bias", numbers.vocab, 0.0)),
    };
    Ok(Shape {
        family: config.family().name,
        hidden: numbers.hidden,
        vocab: numbers.vocab,
        context_tokens: numbers.context_tokens,
        embed: Embed { table, scale: 1.0, places: None, kinds: None, norm: None },
        ropes,
        blocks,
        norm: norm(config, numbers, "output_norm", numbers.hidden),
        head: Head { output: (!reads).then_some(output), scale: 1.0, soft_cap: None },
        summary,
        left_out: config.unused_names(numbers.layers..numbers.layers + numbers.draft_layers),
    })
}

/// The exponent of linear biases on scores (see [`Attention::alibi`]); a family whose scores have such says `what` is missing without one.
pub fn alibi(config: &Config<'_>, what: &str) -> Result<f32, Error> {
    const KEY: &str = "attention.max_alibi_bias";
    match config.optional_number(KEY)? {
        Some(largest) if largest > 0.0 && largest <= ALIBI_MAX => Ok(largest),
        Some(largest) if largest != 0.0 => {
            Err(config.invalid(KEY, &largest.to_string(), &format!("a number over zero and up to {ALIBI_MAX}")))
        }
        None | Some(_) => Err(config.unsupported(what)),
    }
}

/// The rotary embedding of the settings: base, width and scaling.
pub fn rope(config: &Config<'_>, numbers: &Numbers, style: RopeStyle) -> Result<Rope<Name>, Error> {
    let dims = if config.is_gguf() {
        config.optional_count("rope.dimension_count", HEAD_DIM_MAX)?.unwrap_or(numbers.head_dim)
    } else {
        let share = config.optional_number("partial_rotary_factor")?.unwrap_or(1.0);
        let stated = config.optional_count("rotary_dim", HEAD_DIM_MAX)?;
        stated.unwrap_or((numbers.head_dim as f32 * share) as u32)
    };
    if dims == 0 || dims % 2 == 1 || dims > numbers.head_dim {
        let expected = format!("an even number up to {}, the width of a head", numbers.head_dim);
        return Err(config.invalid("rope.dimension_count", &dims.to_string(), &expected));
    }
    let scaling = if config.is_gguf() {
        gguf_scaling(config, numbers, dims)?
    } else {
        // Two names of one setting: the older one, and the one that also holds the base.
        let parts = ["rope_scaling", "rope_parameters"].map(|key| config.json(key));
        let mut scaling = RopeScaling::None;
        for parameters in parts.into_iter().flatten() {
            let stated = hugging_face_scaling(config, numbers, dims, parameters)?;
            if matches!(scaling, RopeScaling::None) {
                scaling = stated;
            }
        }
        scaling
    };
    Ok(Rope { style, dims, base: config.optional_positive("rope.freq_base")?.unwrap_or(10_000.0), scaling })
}

/// For families whose GGUF converter reorders the rows of q and k so that neighbouring values turn together.
pub fn permuted_rope(config: &Config<'_>, numbers: &Numbers) -> Result<Rope<Name>, Error> {
    rope(config, numbers, if config.is_gguf() { RopeStyle::Pairs } else { RopeStyle::Halves })
}

/// Scaling as one object of `config.json` describes it.
pub fn hugging_face_scaling(
    config: &Config<'_>,
    numbers: &Numbers,
    dims: u32,
    parameters: &Json,
) -> Result<RopeScaling<Name>, Error> {
    let number = |key: &str| {
        let value = parameters.get(key);
        let found = value.map_or_else(|| "missing".to_owned(), Json::to_string);
        let number = value.and_then(Json::as_f64).map(|number| number as f32).filter(|number| number.is_finite());
        number.filter(|&number| number > 0.0).ok_or_else(|| config.invalid(key, &found, "a number over zero"))
    };
    if !parameters.is_object() {
        return Err(config.invalid("rope_scaling", &parameters.to_string(), "an object"));
    }
    let kind = parameters.get("rope_type").or_else(|| parameters.get("type"));
    if let Some(kind) = kind.filter(|kind| !kind.is_string()) {
        return Err(config.invalid("rope_type", &kind.to_string(), "the name of a rope type"));
    }
    match kind.and_then(Json::as_str) {
        // The three sections of positions that images have are one for text.
        None | Some("default" | "mrope") => Ok(RopeScaling::None),
        Some("linear") => Ok(RopeScaling::Linear { factor: number("factor")? }),
        Some("llama3") => Ok(RopeScaling::Llama3 {
            factor: number("factor")?,
            low: number("low_freq_factor")?,
            high: number("high_freq_factor")?,
            original_context_tokens: number("original_max_position_embeddings")? as u32,
        }),
        Some("yarn") => yarn(config, numbers, parameters, &number),
        Some("longrope" | "su") => {
            let factors = |key: &str| {
                let values = parameters.get(key).and_then(Json::as_array);
                let values = values.filter(|values| values.len() == dims as usize / 2);
                let numbers = values.and_then(|values| values.iter().map(|v| Some(v.as_f64()? as f32)).collect());
                let expected = format!("a list of {} numbers", dims / 2);
                let found = parameters.get(key).map_or_else(|| "missing".to_owned(), Json::to_string);
                Ok(Factors::Numbers(numbers.ok_or_else(|| config.invalid(key, &found, &expected))?))
            };
            let key = "original_max_position_embeddings";
            let original = match config.json(key) {
                Some(stated) => {
                    let stated_number = stated.as_u64().filter(|&n| n > 0 && n <= u64::from(CONTEXT_MAX));
                    stated_number.ok_or_else(|| config.invalid(key, &stated.to_string(), "a whole number over zero"))?
                        as f32
                }
                None => number(key)?,
            };
            let stated = parameters.get("attention_factor").and_then(Json::as_f64).map(|factor| factor as f32);
            Ok(RopeScaling::LongShort {
                original_context_tokens: original as u32,
                long: factors("long_factor")?,
                short: factors("short_factor")?,
                attention_factor: stated.unwrap_or_else(|| long_rope_attention(numbers.context_tokens, original)),
            })
        }
        Some(other) => Err(config.unsupported(format!("the rope type {other:?}"))),
    }
}

/// `YaRN` as one object of `config.json` describes it.
fn yarn(
    config: &Config<'_>,
    numbers: &Numbers,
    parameters: &Json,
    number: &dyn Fn(&str) -> Result<f32, Error>,
) -> Result<RopeScaling<Name>, Error> {
    let or = |key: &str, usual: f32| {
        if parameters.get(key).is_none_or(Json::is_null) { Ok(usual) } else { number(key) }
    };
    let whole_pairs = match parameters.get("truncate") {
        None | Some(Json::Null) => true,
        Some(Json::Bool(value)) => *value,
        Some(other) => return Err(config.invalid("truncate", &other.to_string(), "true or false")),
    };
    let factor = number("factor")?;
    let spread = |scale: f32| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
    let usual = match (parameters.get("mscale"), parameters.get("mscale_all_dim")) {
        (Some(_), Some(_)) => spread(number("mscale")?) / spread(number("mscale_all_dim")?),
        _ => spread(1.0),
    };
    Ok(RopeScaling::Yarn {
        factor,
        slow_turns: or("beta_slow", 1.0)?,
        fast_turns: or("beta_fast", 32.0)?,
        original_context_tokens: or("original_max_position_embeddings", numbers.context_tokens as f32)? as u32,
        whole_pairs,
        attention_factor: or("attention_factor", usual)?,
    })
}

fn gguf_scaling(config: &Config<'_>, numbers: &Numbers, dims: u32) -> Result<RopeScaling<Name>, Error> {
    if config.has("rope_freqs.weight") {
        return Ok(RopeScaling::Each(Factors::Tensor(config.vector("rope_freqs.weight", dims / 2, 0.0))));
    }
    if config.has("rope_factors_long.weight") {
        let original = config.optional_count("rope.scaling.original_context_length", CONTEXT_MAX)?;
        let original = original.unwrap_or(numbers.context_tokens);
        let stated = config.optional_number("rope.scaling.attn_factor")?;
        return Ok(RopeScaling::LongShort {
            original_context_tokens: original,
            long: Factors::Tensor(config.vector("rope_factors_long.weight", dims / 2, 0.0)),
            short: Factors::Tensor(config.vector("rope_factors_short.weight", dims / 2, 0.0)),
            attention_factor: stated.unwrap_or_else(|| long_rope_attention(numbers.context_tokens, original as f32)),
        });
    }
    match config.text("rope.scaling.type") {
        None | Some("none") => Ok(RopeScaling::None),
        Some("linear") => {
            let factor = config.number("rope.scaling.factor")?;
            if factor <= 0.0 {
                return Err(config.invalid("rope.scaling.factor", &factor.to_string(), "a number over zero"));
            }
            Ok(RopeScaling::Linear { factor })
        }
        Some("yarn") => {
            let latent = config.setting("attention.kv_lora_rank").is_some();
            let multiplier = config.optional_number("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0) != 0.0;
            if multiplier && !latent {
                return Err(config.unsupported("YaRN with rope.scaling.yarn_log_multiplier"));
            }
            let positive = |key: &str, usual: f32| Ok(config.optional_positive(key)?.unwrap_or(usual));
            let factor = positive("rope.scaling.factor", 1.0)?;
            let original = config.optional_count("rope.scaling.original_context_length", CONTEXT_MAX)?;
            // Latent attention has the spread in its scores instead.
            let usual = if multiplier { 1.0 } else { 1.0 + 0.1 * factor.max(1.0).ln() };
            // Stated is the whole factor, not one more on the usual.
            let spread = positive("rope.scaling.yarn_attn_factor", usual)?;
            Ok(RopeScaling::Yarn {
                factor,
                slow_turns: positive("rope.scaling.yarn_beta_slow", 1.0)?,
                fast_turns: positive("rope.scaling.yarn_beta_fast", 32.0)?,
                original_context_tokens: original.unwrap_or(numbers.context_tokens),
                whole_pairs: true,
                attention_factor: positive("rope.scaling.attn_factor", 1.0)? * spread,
            })
        }
        Some(other) => Err(config.unsupported(format!("the rope type {other:?}"))),
    }
}

/// `sqrt(1 + ln(stretch) / ln(original))`: what keeps the scores' spread when the context is stretched (arXiv:2402.13753).
fn long_rope_attention(context_tokens: u32, original_context_tokens: f32) -> f32 {
    let stretch = context_tokens as f32 / original_context_tokens;
    if stretch <= 1.0 { 1.0 } else { (1.0 + stretch.ln() / original_context_tokens.ln()).sqrt() }
}

impl Layer<'_> {
    pub(crate) fn numbers(&self) -> &Numbers {
        self.numbers
    }

    /// A vector of the block, kept as it is; `name` is the whole GGUF name inside the block.
    pub(crate) fn vector(&self, name: &str, length: u32) -> Name {
        self.config.vector(&format!("blk.{}.{name}", self.index), length, 0.0)
    }

    /// Part `index` of `count` of a stack of matrices or vectors of dimensions `dims`; `name` as above.
    pub(crate) fn part_of(&self, name: &str, [index, count]: [u32; 2], dims: &[u32]) -> Name {
        self.config.part(&format!("blk.{}.{name}", self.index), [index, count], dims)
    }

    /// Whether the file has part `index` of a stack.
    pub(crate) fn has_part(&self, name: &str, index: u32) -> bool {
        self.config.has_part(&format!("blk.{}.{name}", self.index), index)
    }

    /// The usual norm of the family over the residual stream; `slot` is the GGUF name inside the block.
    pub fn norm(&self, slot: &str) -> Norm<Name> {
        self.norm_of(slot, self.numbers.hidden)
    }

    /// A norm over groups of `width` values.
    pub fn norm_of(&self, slot: &str, width: u32) -> Norm<Name> {
        norm(self.config, self.numbers, &format!("blk.{}.{slot}", self.index), width)
    }

    /// A matrix with its bias if the file has one, or the configuration says that it must.
    pub fn linear(&self, slot: &str, rows: u32, columns: u32) -> Linear<Name> {
        let bias = format!("blk.{}.{slot}.bias", self.index);
        let stated = if slot.starts_with("attn_") { "attention_bias" } else { "mlp_bias" };
        let must = matches!(self.config.flag(stated), Ok(true));
        Linear {
            rows,
            columns,
            weight: self.config.matrix(&format!("blk.{}.{slot}.weight", self.index), rows, columns),
            bias: (must || self.config.has(&bias)).then(|| self.config.vector(&bias, rows, 0.0)),
        }
    }

    /// Whether this layer is a windowed one: as the configuration lists it, else where the family `usually` has one.
    pub fn is_windowed(&self, usually: bool) -> bool {
        self.numbers.windowed.as_ref().map_or(usually, |listed| listed[self.index as usize])
    }

    /// The window of this layer, if it is a windowed one and windows are on.
    pub fn window(&self, usually: bool) -> Option<u32> {
        self.numbers.window_tokens.filter(|_| self.is_windowed(usually))
    }

    /// A matrix whose bias must be there.
    pub fn biased(&self, slot: &str, rows: u32, columns: u32) -> Linear<Name> {
        let bias = self.config.vector(&format!("blk.{}.{slot}.bias", self.index), rows, 0.0);
        Linear { bias: Some(bias), ..self.linear(slot, rows, columns) }
    }

    /// A matrix that has no bias whatever the configuration says of others.
    pub fn bare(&self, slot: &str, rows: u32, columns: u32) -> Linear<Name> {
        Linear { bias: None, ..self.linear(slot, rows, columns) }
    }

    /// The norm of heads, if the file has one or the configuration says that it must.
    pub fn head_norm(&self, slot: &str) -> Option<Norm<Name>> {
        let must = matches!(self.config.flag("use_qk_norm"), Ok(true));
        let there = self.config.has(&format!("blk.{}.{slot}.weight", self.index));
        (must || there).then(|| self.norm_of(slot, self.numbers.head_dim))
    }

    /// Neighbouring rows of one stored matrix as several: one for each of `rows`, in order.
    pub fn split<const N: usize>(&self, slot: &str, rows: [u32; N], columns: u32) -> [Linear<Name>; N] {
        let whole = self.linear(slot, rows.iter().sum(), columns);
        let mut start = 0;
        rows.map(|rows| {
            let range = u64::from(start)..u64::from(start + rows);
            start += rows;
            let part = |name: &Name| Name { rows: Some(range.clone()), ..name.clone() };
            Linear { rows, columns, weight: part(&whole.weight), bias: whole.bias.as_ref().map(part) }
        })
    }

    /// Grouped attention with three projections, rope 0, and scores scaled by `1 / sqrt(head_dim)`.
    pub fn attention(&self) -> Attention<Name> {
        let Numbers { hidden, heads, kv_heads, head_dim, .. } = *self.numbers;
        Attention {
            heads,
            kv_heads,
            head_dim,
            gated: false,
            q: self.linear("attn_q", heads * head_dim, hidden),
            k: self.linear("attn_k", kv_heads * head_dim, hidden),
            v: self.linear("attn_v", kv_heads * head_dim, hidden),
            output: self.linear("attn_output", hidden, heads * head_dim),
            q_norm: None,
            k_norm: None,
            rope: Some(0),
            window_tokens: self.window(false),
            both_ways: self.config.setting("attention.causal").is_some()
                && matches!(self.config.flag("attention.causal"), Ok(false)),
            soft_cap: None,
            scale: 1.0 / (head_dim as f32).sqrt(),
            alibi: None,
            sinks: None,
        }
    }

    /// The same with an output gate, whose rows stand between those of the queries.
    pub fn gated_attention(&self) -> Attention<Name> {
        let Numbers { hidden, heads, head_dim, .. } = *self.numbers;
        Attention { gated: true, q: self.linear("attn_q", 2 * heads * head_dim, hidden), ..self.attention() }
    }

    /// A gated feed-forward network of three matrices, with the activation that the configuration names, else the `usual` one.
    pub fn gated(&self, usual: Activation) -> Dense<Name> {
        let Numbers { hidden, ffn, .. } = *self.numbers;
        Dense {
            gate: Some(self.linear("ffn_gate", ffn, hidden)),
            up: self.linear("ffn_up", ffn, hidden),
            down: self.linear("ffn_down", hidden, ffn),
            activation: self.numbers.activation.unwrap_or(usual),
            gate_scale: 1.0,
        }
    }

    /// The usual block: a norm before each of the two.
    pub fn pre_norm(&self, attention: Attention<Name>, ffn: impl Into<Ffn<Name>>) -> Block<Name> {
        self.block(Mixer::Attention(attention), ffn.into())
    }

    /// A block of any two, a norm before each.
    pub fn block(&self, mixer: Mixer<Name>, ffn: Ffn<Name>) -> Block<Name> {
        let block = self.mixing("attn_norm", mixer);
        Block { ffn: self.feeding("ffn_norm", ffn).ffn, ..block }
    }

    /// A block that only mixes tokens, behind the norm in `slot`.
    pub fn mixing(&self, slot: &str, mixer: Mixer<Name>) -> Block<Name> {
        let branch = Branch { norm: Some(self.norm(slot)), op: mixer, post_norm: None, scale: 1.0 };
        Block { mixer: Some(branch), ffn: None, wiring: Wiring::Sequential }
    }

    /// A block that only has a feed-forward network, behind the norm in `slot`.
    pub fn feeding(&self, slot: &str, ffn: Ffn<Name>) -> Block<Name> {
        let branch = Branch { norm: Some(self.norm(slot)), op: ffn, post_norm: None, scale: 1.0 };
        Block { mixer: None, ffn: Some(branch), wiring: Wiring::Sequential }
    }
}

/// The family's usual norm, of the tensor in `slot`.
pub fn norm(config: &Config<'_>, numbers: &Numbers, slot: &str, width: u32) -> Norm<Name> {
    let bias = format!("{slot}.bias");
    Norm {
        kind: numbers.norm,
        width,
        epsilon: numbers.epsilon,
        weight: config.vector(&format!("{slot}.weight"), width, numbers.norm_plus),
        bias: config.has(&bias).then(|| config.vector(&bias, width, 0.0)),
    }
}
