//! A safetensors directory as a GGUF would have it: settings, and for every tensor the rows it is made of.
//!
//! A family is read twice: as the directory is, and as the file would be, which so far has names and settings alone. Both give a
//! shape; where the two are equal, slot by slot what fills the one fills the other, and the file is the same model. Where they are
//! not, the first difference is the reason to refuse. No weight is read here.

mod folding;
mod settings;

use kauri_formats::{Bytes, Checkpoint, Metadata, Quant, Source, Tensor, Value};

use crate::config::{Config, Error};
use crate::name::{Name, Role};
use crate::shape::{Attention, Factors, GatedDelta, Linear, Mixer, RopeScaling, Shape};

/// What the file holds of the model itself: no vocabulary, no template, no bytes.
#[derive(Debug)]
pub struct Renamed {
    /// `general.architecture` and the settings under its name.
    pub metadata: Metadata,
    /// Every weight slot, in the order of the forward pass.
    pub slots: Vec<(Name, Origin)>,
    /// Tensors made of settings: rope factors.
    pub made: Vec<(String, Vec<f32>)>,
}

/// What fills a slot: rows of a tensor of the directory, perhaps in another order.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The tensor, and which rows of it.
    pub name: Name,
    /// Those rows in the order of the file, counted from the first of them; as they are where unset.
    pub rows: Option<Vec<u32>>,
    /// The columns in the order of the file; as they are where unset.
    pub columns: Option<Vec<u32>>,
    /// What values are multiplied with: a factor for so many rows, in the order of the file. As they are where there is none.
    pub factors: Vec<(u32, f32)>,
}

/// GGUF stacks that a directory keeps above each other in one: gates and what goes with them.
const SPLIT: &[(&str, [&str; 2])] = &[
    ("ffn_gate_up_exps", ["ffn_gate_exps", "ffn_up_exps"]),
    ("ffn_gate_up_shexp", ["ffn_gate_shexp", "ffn_up_shexp"]),
    ("ssm_in", ["attn_qkv", "attn_gate"]),
];

/// Families without a name of their own in GGUF, and whose they take there.
const ALIASES: &[(&str, &str)] = &[("deepseek3", "deepseek2"), ("mistral", "llama"), ("mixtral", "llama")];

/// Families whose GGUF has another name where there are experts.
const WITH_EXPERTS: &[(&str, &str)] = &[("nemotron_h", "nemotron_h_moe")];

/// Tensors that a family's GGUF keeps without a suffix.
const BARE: &[(&str, &str)] = &[("falcon-h1", "ffn_norm")];

/// What a GGUF of the model in this directory holds.
///
/// # Errors
/// When the directory is no model, or its family's GGUF cannot say what it is: the message has the first difference.
pub fn to_gguf(checkpoint: &Checkpoint) -> Result<Renamed, Error> {
    let config = Config::new(checkpoint)?;
    if config.is_gguf() {
        return Err(config.unsupported("converting what is a GGUF already"));
    }
    let shape = (config.family().shape)(&config)?;
    let family = config.family();
    let experts = if shape.ffns().any(|ffn| ffn.moe().is_some()) { WITH_EXPERTS } else { &[] };
    let alias = ALIASES.iter().chain(experts).find(|(name, _)| *name == family.name).map(|&(_, alias)| alias);
    let architecture = alias.or(family.gguf.first().copied());
    let architecture = architecture.ok_or_else(|| config.unsupported("a GGUF of this family"))?;
    let made = made(&shape);
    let mut metadata = Metadata::default();
    metadata.insert("general.architecture".to_owned(), Value::String(architecture.to_owned()));
    for (key, value) in settings::of(&config, &shape)? {
        metadata.insert(format!("{architecture}.{key}"), value);
    }
    let mut tensors = canonical(&config, &shape);
    tensors.extend(made.iter().map(|(name, values)| (name.clone(), vec![values.len() as u64])));
    let tensor = |dims| Tensor { quant: Quant::F32, dims, data: Bytes::from(Vec::new()), scales: None };
    let planned = Checkpoint {
        paths: Vec::new(),
        source: Source::Gguf(metadata),
        tensors: tensors.into_iter().map(|(name, dims)| (name, tensor(dims))).collect(),
    };
    let target = crate::identify(&planned)?;
    let origin = |name: &Name| Origin { name: name.clone(), rows: None, columns: None, factors: Vec::new() };
    let shape = shape.try_map(&mut |name| Ok::<_, Error>(origin(name)))?;
    let mut shape = adapted(shape, &target);
    folding::fold(&config, &mut shape, &target)?;
    if let Some(difference) = difference(&shape, &target) {
        return Err(config.unsupported(format!("a GGUF of this model ({difference})")));
    }
    let (mut from, mut to) = (Vec::new(), Vec::new());
    // Of the ropes, what is a tensor was made of settings.
    shape.ropes.clear();
    shape.for_each(|origin| from.push(origin.clone()));
    let target = Shape { ropes: Vec::new(), ..target };
    target.for_each(|name| to.push(name.clone()));
    let Source::Gguf(metadata) = planned.source else { unreachable!("it was made above") };
    // What is of no tensor has no place in the file.
    let slots = to.into_iter().zip(from).filter(|(name, _)| name.role != Role::Ones);
    Ok(Renamed { metadata, slots: slots.collect(), made })
}

/// Every tensor that a table of names knows and the directory has, by its GGUF name, with its dimensions; experts stacked.
fn canonical(config: &Config<'_>, shape: &Shape<Name>) -> Vec<(String, Vec<u64>)> {
    let mut tensors = Vec::new();
    let names = config.known_tensors();
    let layers = (0..shape.blocks.len()).map(|layer| format!("blk.{layer}."));
    for prefix in std::iter::once(String::new()).chain(layers) {
        for name in names.iter().flat_map(|slot| ["", ".weight", ".bias"].map(|suffix| format!("{slot}{suffix}"))) {
            let whole = format!("{prefix}{name}");
            let Some(dims) = config.canonical_dims(&whole) else { continue };
            let split =
                SPLIT.iter().find(|(together, _)| name.split('.').next() == Some(together) && is_split(config, &whole));
            let Some((_, parts)) = split else {
                tensors.push((whole, dims));
                continue;
            };
            let suffix = if name.rsplit('.').next() == Some("bias") { ".bias" } else { ".weight" };
            for part in parts {
                tensors.push((format!("{prefix}{part}{suffix}"), dims.clone()));
            }
        }
    }
    tensors.retain(|(name, _)| !name.ends_with(".scales"));
    for (name, _) in &mut tensors {
        if let Some(slot) = name.strip_suffix(".blocks") {
            *name = format!("{slot}.weight");
        }
    }
    // A head that repeats the table is left out of the file, which says by that that it is tied; unless the two are multiplied differently.
    if shape.head.output.as_ref().is_none_or(|output| output.weight == shape.embed.table) {
        tensors.retain(|(name, _)| name != "output.weight");
        if folding::parts_head(config, shape) {
            tensors.push(("output.weight".to_owned(), vec![u64::from(shape.vocab), u64::from(shape.hidden)]));
        }
    }
    for (_, bare) in BARE.iter().filter(|(family, _)| *family == config.family().name) {
        let suffixed = format!(".{bare}.weight");
        for (name, _) in tensors.iter_mut().filter(|(name, _)| name.ends_with(&suffixed)) {
            name.truncate(name.len() - ".weight".len());
        }
    }
    tensors
}

/// The state spaces of most families have an `ssm_in` of their own; only the delta rule's is two things in one.
fn is_split(config: &Config<'_>, whole: &str) -> bool {
    let delta = whole.replace("ssm_in", "ssm_ba");
    !whole.contains("ssm_in") || config.has(&delta)
}

/// Rope factors, where a GGUF has a tensor and `config.json` the numbers that they are made of.
fn made(shape: &Shape<Name>) -> Vec<(String, Vec<f32>)> {
    let mut tensors = Vec::new();
    let Some(rope) = shape.ropes.first() else { return tensors };
    match &rope.scaling {
        RopeScaling::Llama3 { factor, low, high, original_context_tokens } => {
            let stretch = [*factor, *low, *high, *original_context_tokens as f32];
            tensors.push(("rope_freqs.weight".to_owned(), llama3_factors(rope.base, rope.dims, stretch)));
        }
        RopeScaling::LongShort { long: Factors::Numbers(long), short: Factors::Numbers(short), .. } => {
            tensors.push(("rope_factors_long.weight".to_owned(), long.clone()));
            tensors.push(("rope_factors_short.weight".to_owned(), short.clone()));
        }
        RopeScaling::None
        | RopeScaling::Linear { .. }
        | RopeScaling::Yarn { .. }
        | RopeScaling::Each(_)
        | RopeScaling::LongShort { .. } => {}
    }
    tensors
}

/// What Llama 3.1 divides each frequency by.
fn llama3_factors(base: f32, dims: u32, [factor, low, high, original]: [f32; 4]) -> Vec<f32> {
    let factor_of = |pair: u32| {
        let frequency = 1.0 / base.powf(2.0 * pair as f32 / dims as f32);
        let wavelength = std::f32::consts::TAU / frequency;
        if wavelength < original / high {
            1.0
        } else if wavelength > original / low {
            factor
        } else {
            let smooth = (original / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    (0..dims / 2).map(factor_of).collect()
}

/// The shape of the directory with its rows in the order of the file.
fn adapted(mut shape: Shape<Origin>, target: &Shape<Name>) -> Shape<Origin> {
    let turned: Vec<bool> = shape.ropes.iter().zip(&target.ropes).map(|(from, to)| from.style != to.style).collect();
    let dims: Vec<u32> = shape.ropes.iter().map(|rope| rope.dims).collect();
    for (block, like) in shape.blocks.iter_mut().zip(&target.blocks) {
        match block.mixer.as_mut().map(|branch| &mut branch.op) {
            Some(Mixer::Attention(attention)) => pair_up(attention, &turned, &dims),
            Some(Mixer::Parallel(parallel)) => pair_up(&mut parallel.attention, &turned, &dims),
            Some(Mixer::GatedDelta(delta)) => {
                if let Some(Mixer::GatedDelta(like)) = like.mixer() {
                    deal(delta, like);
                }
            }
            None
            | Some(
                Mixer::Latent(_) | Mixer::ShortConv(_) | Mixer::StateSpace(_) | Mixer::Selective(_) | Mixer::TimeMix(_),
            ) => {}
        }
    }
    for (rope, like) in shape.ropes.iter_mut().zip(&target.ropes) {
        rope.style = like.style;
    }
    shape
}

/// Rows of queries and keys whose halves turn together, so that neighbours do.
fn pair_up(attention: &mut Attention<Origin>, turned: &[bool], dims: &[u32]) {
    let Some(rope) = attention.rope.filter(|&rope| turned.get(rope) == Some(&true)) else { return };
    let (dims, head_dim) = (dims[rope], attention.head_dim);
    let order = |heads: u32| -> Vec<u32> {
        let place = |row: u32| {
            let (head, at) = (row / head_dim, row % head_dim);
            let at = if at < dims { at % 2 * (dims / 2) + at / 2 } else { at };
            head * head_dim + at
        };
        (0..heads * head_dim).map(place).collect()
    };
    let (heads, kv_heads) = (attention.heads, attention.kv_heads);
    reorder(&mut attention.q, &order(heads));
    reorder(&mut attention.k, &order(kv_heads));
}

fn reorder(linear: &mut Linear<Origin>, order: &[u32]) {
    linear.rows = order.len() as u32;
    linear.weight.rows = Some(order.to_vec());
    if let Some(bias) = &mut linear.bias {
        bias.rows = Some(order.to_vec());
    }
}

/// A delta rule as the file has it: what safetensors keep key head after key head apart, and value heads dealt out to the key heads
/// in turn.
fn deal(delta: &mut GatedDelta<Origin>, like: &GatedDelta<Name>) {
    let (keys, each) = (delta.key_heads, delta.value_heads / delta.key_heads);
    let (key, values) = (delta.key_dim, each * delta.value_dim);
    if delta.gate.is_none() && like.gate.is_some() {
        let group = 2 * key + 2 * values;
        let part = |start: u32, width: u32| {
            (0..keys).flat_map(move |head| (0..width).map(move |row| head * group + start + row))
        };
        let order: Vec<u32> = part(0, key).chain(part(key, key)).chain(part(2 * key, values)).collect();
        let gates: Vec<u32> = part(2 * key + values, values).collect();
        let mut gate = delta.input.clone();
        reorder(&mut gate, &gates);
        reorder(&mut delta.input, &order);
        delta.gate = Some(gate);
    }
    if !delta.interleaved && like.interleaved {
        let of_heads = |width: u32| -> Vec<u32> {
            let from = move |head: u32| (head % keys) * each + head / keys;
            (0..keys * each).flat_map(|head| (0..width).map(move |row| from(head) * width + row)).collect()
        };
        let wide = of_heads(delta.value_dim);
        let channels: Vec<u32> = (0..2 * keys * key).chain(wide.iter().map(|row| 2 * keys * key + row)).collect();
        reorder(&mut delta.input, &channels);
        if let Some(gate) = &mut delta.gate {
            reorder(gate, &wide);
        }
        let heads = of_heads(1);
        reorder(&mut delta.rates, &heads);
        if let Some(steps) = &mut delta.steps {
            reorder(steps, &heads);
        }
        delta.decay.rows = Some(heads.clone());
        delta.step_bias.rows = Some(heads);
        // A convolution's weight is a vector of all its taps.
        let taps = delta.convolution.taps;
        delta.convolution.weight.rows =
            Some(channels.iter().flat_map(|row| (0..taps).map(move |tap| row * taps + tap)).collect());
        if let Some(bias) = &mut delta.convolution.bias {
            bias.rows = Some(channels);
        }
        delta.output.weight.columns = Some(wide);
        delta.interleaved = true;
    }
}

/// The first line in which the two shapes differ, apart from names, and what it is inside of.
fn difference(shape: &Shape<Origin>, target: &Shape<Name>) -> Option<String> {
    let (found, expected) = (lines(shape), lines(target));
    let at = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    let Some(at) = at else {
        return (found.len() != expected.len()).then(|| "it has other parts".to_owned());
    };
    let depth = |line: &str| line.len() - line.trim_start().len();
    let (mut inside, mut least) = (Vec::new(), depth(&found[at]));
    for outer in found[..at].iter().rev() {
        if depth(outer) < least {
            least = depth(outer);
            inside.extend(outer.trim().split([':', ' ']).next());
        }
    }
    inside.reverse();
    let (found, expected) = (found[at].trim(), expected[at].trim());
    Some(format!("{}: {found} in the directory, {expected} in the file", inside.join(" ")))
}

/// Everything of a shape but its names, a line each.
fn lines<W>(shape: &Shape<W>) -> Vec<String> {
    #[derive(Debug)]
    struct Slot;
    let Ok(mut bare) = shape.try_map(&mut |_| Ok::<_, std::convert::Infallible>(Slot));
    bare.family = "";
    bare.left_out = Vec::new();
    for rope in &mut bare.ropes {
        // Made of settings here, a tensor there.
        if let RopeScaling::Llama3 { .. } = rope.scaling {
            rope.scaling = RopeScaling::Each(Factors::Tensor(Slot));
        }
        if let RopeScaling::LongShort { long, short, .. } = &mut rope.scaling {
            (*long, *short) = (Factors::Tensor(Slot), Factors::Tensor(Slot));
        }
    }
    format!("{bare:#?}").lines().map(str::to_owned).collect()
}
