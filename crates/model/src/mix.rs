//! The usual mixes of types, by the names that people know: which tensor of a file gets which type.
//!
//! The rules are those of llama.cpp (`llama_tensor_get_type_impl` in `llama-quant.cpp`), so that a file of a name has the types that
//! everybody's file of that name has. They know names of tensors and a few numbers of the model, no values.

use kauri_formats::{Metadata, Quant};

use crate::draft::Planned;

/// A mix: its name, what a GGUF calls it (`general.file_type`), and the type of what no rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The name.
    pub name: &'static str,
    /// The number of `general.file_type`.
    pub file_type: u32,
    /// The type of most tensors.
    pub quant: Quant,
}

const fn mix(name: &'static str, file_type: u32, quant: Quant) -> Mix {
    Mix { name, file_type, quant }
}

/// Every mix whose types can be written, from the most bits to the fewest.
pub const MIXES: &[Mix] = &[
    mix("F32", 0, Quant::F32),
    mix("F16", 1, Quant::F16),
    mix("BF16", 32, Quant::BF16),
    mix("Q8_0", 7, Quant::Q8_0),
    mix("Q6_K", 18, Quant::Q6_K),
    mix("Q5_1", 9, Quant::Q5_1),
    mix("Q5_K_M", 17, Quant::Q5_K),
    mix("Q5_K_S", 16, Quant::Q5_K),
    mix("Q5_0", 8, Quant::Q5_0),
    mix("Q4_1", 3, Quant::Q4_1),
    mix("Q4_K_M", 15, Quant::Q4_K),
    mix("Q4_K_S", 14, Quant::Q4_K),
    mix("Q4_0", 2, Quant::Q4_0),
    mix("IQ4_NL", 25, Quant::IQ4_NL),
    mix("IQ4_XS", 30, Quant::IQ4_XS),
    mix("MXFP4_MOE", 38, Quant::MXFP4),
    mix("Q3_K_L", 13, Quant::Q3_K),
    mix("Q3_K_M", 12, Quant::Q3_K),
    mix("Q3_K_S", 11, Quant::Q3_K),
    mix("Q2_K", 10, Quant::Q2_K),
    mix("Q2_K_S", 21, Quant::Q2_K),
    mix("Q2_0", 41, Quant::Q2_0),
    mix("TQ2_0", 37, Quant::TQ2_0),
    mix("TQ1_0", 36, Quant::TQ1_0),
    mix("Q1_0", 40, Quant::Q1_0),
];

impl Mix {
    /// The mix called `name`, in letters of any case; `Q4_K` and its kind are the middle one of theirs.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_uppercase();
        let name = match &*name {
            "Q3_K" | "Q4_K" | "Q5_K" => format!("{name}_M"),
            "MXFP4" => "MXFP4_MOE".to_owned(),
            _ => name,
        };
        MIXES.iter().copied().find(|mix| mix.name == name)
    }
}

/// What a tensor is for, as far as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Category {
    Embedding,
    Query,
    Key,
    Value,
    QueryKeyValue,
    LatentKeyValue,
    AttentionOutput,
    Up,
    Gate,
    Down,
    Output,
    Other,
}

impl Category {
    /// The first that the name says; some names contain another's.
    fn of(name: &str) -> Self {
        const PARTS: [(&str, Category); 9] = [
            ("attn_qkv.weight", Category::QueryKeyValue),
            ("attn_kv_b.weight", Category::LatentKeyValue),
            ("attn_v.weight", Category::Value),
            ("attn_k.weight", Category::Key),
            ("attn_q.weight", Category::Query),
            ("attn_output.weight", Category::AttentionOutput),
            ("ffn_up", Category::Up),
            ("ffn_gate", Category::Gate),
            ("ffn_down", Category::Down),
        ];
        match name {
            "output.weight" => Self::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" => Self::Embedding,
            _ => PARTS.iter().find(|(part, _)| name.contains(part)).map_or(Self::Other, |&(_, category)| category),
        }
    }

    /// What everything that is remembered goes through: worth more bits.
    fn is_value(self) -> bool {
        matches!(self, Self::Value | Self::QueryKeyValue | Self::LatentKeyValue)
    }
}

/// Parts of names of tensors that stay as they are: small, or not made for it.
const KEPT: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "position_embd.weight",
    "token_types.weight",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// Whether a tensor is one that may be quantised at all.
pub fn may_change(tensor: &Planned) -> bool {
    // Outer dimensions of one are none.
    let outer = tensor.dims.iter().take_while(|&&length| length == 1).count();
    let matrix = tensor.dims.len() - outer >= 2;
    matrix && tensor.name.ends_with("weight") && KEPT.iter().all(|part| !tensor.name.contains(part))
}

/// What the rules ask of the model.
#[derive(Clone, Debug)]
pub struct Facts {
    falcon: bool,
    /// Of the 70B of Llama 2 and 3 and its like, where eight heads share their values.
    large: bool,
    layers: i64,
    experts: u64,
    /// Query heads to one of keys and values.
    sharing: u64,
}

impl Facts {
    /// From the settings of a file.
    pub fn of(metadata: &Metadata) -> Self {
        let family = metadata.str("general.architecture").unwrap_or_default();
        let number = |key: &str| {
            let key = format!("{family}.{key}");
            let listed = || metadata.i64s(&key).and_then(|list| list.first().copied());
            metadata.u64(&key).or_else(|| listed().and_then(|first| u64::try_from(first).ok())).unwrap_or(0)
        };
        let (heads, kv_heads, layers) =
            (number("attention.head_count"), number("attention.head_count_kv"), number("block_count"));
        Self {
            falcon: family == "falcon",
            large: layers == 80
                && (matches!(family, "deci" | "qwen2" | "olmo") || family == "llama" && heads != kv_heads),
            layers: layers as i64,
            experts: number("expert_count"),
            sharing: heads.checked_div(kv_heads).unwrap_or(0),
        }
    }
}

/// The types of all tensors.
pub fn types(mix: Mix, tensors: &[Planned], facts: &Facts, has_importance: bool) -> Vec<Quant> {
    let mut types: Vec<Quant> = tensors.iter().map(|tensor| tensor.quant).collect();
    // The rules count tensors of a kind: layer by layer, and by their names in each.
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|&index| (layer(&tensors[index].name), &tensors[index].name));
    let categories: Vec<Category> = tensors.iter().map(|tensor| Category::of(&tensor.name)).collect();
    let mut state = Rules {
        mix,
        facts,
        has_importance,
        tied: !categories.contains(&Category::Output),
        values: categories.iter().filter(|category| category.is_value()).count() as i64,
        values_seen: 0,
        downs_seen: 0,
    };
    for index in order.into_iter().filter(|&index| may_change(&tensors[index])) {
        types[index] = match mix.quant {
            Quant::F32 | Quant::F16 | Quant::BF16 => mix.quant,
            _ => fitting(state.next(&tensors[index], categories[index]), tensors[index].columns()),
        };
    }
    types
}

/// The number of the layer that a tensor is of; minus one for those of none.
fn layer(name: &str) -> i64 {
    let number = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(-1)
}

/// The type, or the next best with blocks that rows of so many columns are whole ones of.
pub fn fitting(quant: Quant, columns: usize) -> Quant {
    let fits = |quant: Quant| columns.is_multiple_of(quant.block_len());
    if fits(quant) {
        return quant;
    }
    let smaller = match quant {
        Quant::IQ4_XS => Quant::IQ4_NL,
        Quant::Q2_K | Quant::Q3_K | Quant::Q2_0 | Quant::TQ1_0 | Quant::TQ2_0 | Quant::Q1_0 => Quant::Q4_0,
        Quant::Q4_K => Quant::Q5_0,
        Quant::Q5_K => Quant::Q5_1,
        Quant::Q6_K => Quant::Q8_0,
        _ => Quant::F16,
    };
    if fits(smaller) { smaller } else { Quant::F16 }
}

/// What the rules have seen so far.
struct Rules<'a> {
    mix: Mix,
    facts: &'a Facts,
    has_importance: bool,
    /// The table of embeddings is the head, too.
    tied: bool,
    /// Tensors of values, and how many of them were seen.
    values: i64,
    values_seen: i64,
    downs_seen: i64,
}

/// The first eighth of the layers, the last, and every third between them.
fn more_bits(layer: i64, layers: i64) -> bool {
    layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2
}

impl Rules<'_> {
    fn next(&mut self, tensor: &Planned, category: Category) -> Quant {
        let usual = self.mix.quant;
        if category == Category::Output || (self.tied && category == Category::Embedding) {
            return self.output(tensor);
        }
        if self.mix.name == "MXFP4_MOE" {
            return if tensor.dims.len() > 2 { Quant::MXFP4 } else { Quant::Q8_0 };
        }
        match category {
            Category::Embedding => match self.mix.name {
                "TQ1_0" | "TQ2_0" | "Q2_0" => Quant::Q4_K,
                _ => usual,
            },
            Category::Value | Category::QueryKeyValue | Category::LatentKeyValue => self.value(),
            Category::Key if self.facts.experts == 8 => Quant::Q8_0,
            Category::Down => self.down(tensor),
            Category::AttentionOutput => self.attention_output(),
            Category::Query | Category::Key | Category::Up | Category::Gate | Category::Output | Category::Other => {
                usual
            }
        }
    }

    fn output(&self, tensor: &Planned) -> Quant {
        let whole = tensor.columns().is_multiple_of(self.mix.quant.block_len());
        if self.mix.name == "MXFP4_MOE" || self.facts.falcon || !whole || self.mix.quant == Quant::Q8_0 {
            Quant::Q8_0
        } else {
            Quant::Q6_K
        }
    }

    fn value(&mut self) -> Quant {
        let seen = self.values_seen;
        self.values_seen += 1;
        let shared = self.facts.sharing >= 4;
        let mut quant = match self.mix.name {
            "Q2_K" | "Q2_K_S" if shared => Quant::Q4_K,
            "Q2_K" => Quant::Q3_K,
            "Q3_K_M" if seen < 2 => Quant::Q5_K,
            "Q3_K_M" => Quant::Q4_K,
            "Q3_K_L" => Quant::Q5_K,
            "IQ4_NL" | "IQ4_XS" if shared => Quant::Q5_K,
            "Q4_K_M" | "Q5_K_M" if more_bits(seen, self.values) => Quant::Q6_K,
            "Q4_K_S" if seen < 4 => Quant::Q5_K,
            _ => self.mix.quant,
        };
        if self.facts.large && matches!(quant, Quant::Q3_K | Quant::Q4_K) {
            quant = Quant::Q5_K;
        }
        if self.facts.experts == 8 { Quant::Q8_0 } else { quant }
    }

    fn down(&mut self, tensor: &Planned) -> Quant {
        // Of experts, those of a layer may be several tensors.
        let at = if self.facts.experts > 1 { layer(&tensor.name) } else { self.downs_seen };
        self.downs_seen += 1;
        let layers = self.facts.layers;
        let (early, falcon) = (at < layers / 8, self.facts.falcon);
        match self.mix.name {
            "Q2_K" => Quant::Q3_K,
            "Q2_K_S" if early => Quant::Q4_K,
            "Q3_K_M" if at < layers / 16 => Quant::Q5_K,
            "Q3_K_M" if !falcon || more_bits(at, layers) => Quant::Q4_K,
            "Q3_K_L" if falcon => Quant::Q4_K,
            "Q3_K_L" => Quant::Q5_K,
            "Q4_K_M" if falcon && at < layers / 16 => Quant::Q6_K,
            "Q4_K_M" if falcon && more_bits(at, layers) => Quant::Q5_K,
            "Q4_K_M" if !falcon && more_bits(at, layers) => Quant::Q6_K,
            "IQ4_NL" | "IQ4_XS" if early && !self.has_importance => Quant::Q5_K,
            "Q5_K_M" if more_bits(at, layers) => Quant::Q6_K,
            "Q4_K_S" if !falcon && early => Quant::Q5_K,
            "Q4_0" if self.has_importance && early => Quant::Q4_1,
            "Q5_0" if self.has_importance && early => Quant::Q5_1,
            _ => self.mix.quant,
        }
    }

    fn attention_output(&self) -> Quant {
        const FEW_EXPERTS: [&str; 7] = ["Q2_K", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ4_XS"];
        match self.mix.name {
            "Q3_K_L" if self.facts.falcon => Quant::Q4_K,
            _ if self.facts.falcon => self.mix.quant,
            name if self.facts.experts == 8 && FEW_EXPERTS.contains(&name) => Quant::Q5_K,
            _ if self.facts.experts == 8 => self.mix.quant,
            "Q2_K" => Quant::Q3_K,
            "Q3_K_M" => Quant::Q4_K,
            "Q3_K_L" => Quant::Q5_K,
            _ => self.mix.quant,
        }
    }
}
