//! Kernels as text: each is put together from a few files, so that a storage type, a way of adding up and a way of keeping the cache are
//! each written once.
//!
//! A kernel names the types that its matrices may have: one, and the text holds that one's unpacker alone; several, and a number among
//! the kernel's arguments chooses.

use std::fmt::Write as _;

use kauri_device::CacheType;
use kauri_formats::Quant;

use crate::choose;

/// Values of a cached row at most.
pub(crate) const ROW_VALUES_MAX: usize = 640;

/// Experts of a layer at most, and groups of them.
pub(crate) const EXPERTS_MAX: usize = 1024;
pub(crate) const GROUPS_MAX: u32 = 64;
/// Taps of a convolution at most, columns of a state space's state, and values of a key or a head of other states.
pub(crate) const TAPS_MAX: u32 = 16;
pub(crate) const STATE_COLUMNS_MAX: u32 = 512;
pub(crate) const STATE_WIDTH_MAX: u32 = 512;

/// Neighbouring threads that add up together, at least and at most: eight times as many are a workgroup, which has 256 at most.
const LANES_MIN: u32 = 4;
const LANES_MAX: u32 = 32;

/// What adds up in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// Nothing: sums go by way of memory, over so many neighbouring threads, a power of two.
    Memory(u32),
    /// So many neighbouring threads, a power of two that no subgroup is smaller than.
    Subgroup(u32),
}

impl Lanes {
    /// What devices without subgroups do best: fewer barriers than over more threads.
    pub(crate) const WITHOUT_SUBGROUPS: Self = Self::Memory(8);

    /// For subgroups of no fewer threads.
    pub(crate) fn of_subgroup(least: u32) -> Self {
        if least < LANES_MIN { Self::WITHOUT_SUBGROUPS } else { Self::Subgroup(Self::allowed(least)) }
    }

    /// By way of memory over so many threads, or the next fewer that kernels can be written for.
    pub(crate) fn of_memory(wanted: u32) -> Self {
        Self::Memory(Self::allowed(wanted))
    }

    fn allowed(wanted: u32) -> u32 {
        1 << wanted.clamp(LANES_MIN, LANES_MAX).ilog2()
    }

    /// Threads that share a row of a matrix.
    pub(crate) fn count(self) -> u32 {
        match self {
            Self::Memory(lanes) | Self::Subgroup(lanes) => lanes,
        }
    }

    /// Threads of a workgroup.
    pub(crate) fn threads(self) -> u32 {
        (8 * self.count()).max(64)
    }

    /// Rows of a matrix that a workgroup takes, where a few threads have one each.
    pub(crate) fn rows(self) -> u32 {
        self.threads() / self.count()
    }

    /// Threads of a workgroup of products: few, so that there are enough workgroups; more where they bring a row of the buffer to their
    /// memory.
    fn product_threads(self, by: By) -> u32 {
        let parts = match by {
            By::Eight => 2,
            By::Run => 4,
        };
        (parts * self.count()).max(64)
    }

    /// Rows of a matrix that a workgroup of products takes, and of each of a gated pair.
    pub(crate) fn product_rows(self, tokens: u32, by: By) -> [u32; 2] {
        each(tokens).map(|each| self.product_threads(by) / self.count() * each)
    }

    /// Rows of an expert's gate and up that a workgroup takes, and of its down.
    pub(crate) fn expert_rows(self, by: By) -> [u32; 2] {
        each_of_experts(by).map(|each| self.expert_threads(by) / self.count() * each)
    }

    fn expert_threads(self, by: By) -> u32 {
        match by {
            By::Eight => self.threads(),
            By::Run => self.product_threads(by),
        }
    }
}

/// How much of a matrix's row a thread unpacks at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum By {
    /// Eight values: any number of columns, and of rows of the batch.
    #[default]
    Eight,
    /// 32 values, with their factors once: whole runs, of up to four rows of the batch.
    Run,
}

impl By {
    /// Rows of the batch that meet an unpacked row of a matrix, of so many.
    pub(crate) fn tokens(self, rows: usize) -> usize {
        match self {
            _ if rows == 1 => 1,
            Self::Eight => 8,
            Self::Run => 4,
        }
    }
}

/// Columns of a run.
pub(crate) const RUN: usize = 32;

/// Runs of so many rows of the batch that are in the memory of a workgroup at a time: one for each lane, and 17 KiB at most.
fn tile_runs(lanes: Lanes, tokens: u32) -> u32 {
    if tokens == 1 { 64 } else { lanes.count().max(16) }
}

/// Rows of a matrix that the same threads take in a product, and of each of a gated pair: what so many rows of the batch meet is read
/// once for them. More take more registers than there are, and a driver that computes on the CPU long to compile.
fn each(tokens: u32) -> [u32; 2] {
    if tokens == 1 { [4, 2] } else { [2, 1] }
}

/// Rows of an expert's gate and up that the same threads take, and of its down.
fn each_of_experts(by: By) -> [u32; 2] {
    match by {
        By::Eight => [1, 1],
        By::Run => [2, 4],
    }
}

/// The files that hold a kernel's `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    Attend,
    Convolve,
    Delta,
    DrawChange,
    DrawCount,
    DrawCut,
    DrawFirst,
    DrawList,
    DrawPick,
    DrawWeigh,
    Each,
    Embed,
    ExpertsDown,
    ExpertsUp,
    GateUp,
    Greedy,
    Heads,
    Norm,
    PassBy,
    Product,
    ProductUnits,
    ProductWide,
    Replace,
    Rope,
    Route,
    Scan,
    Select,
    Shift,
    Store,
    Sums,
    Turn,
}

impl Entry {
    /// Every one.
    const ALL: [Self; 31] = [
        Self::Attend,
        Self::Convolve,
        Self::Delta,
        Self::DrawChange,
        Self::DrawCount,
        Self::DrawCut,
        Self::DrawFirst,
        Self::DrawList,
        Self::DrawPick,
        Self::DrawWeigh,
        Self::Each,
        Self::Embed,
        Self::ExpertsDown,
        Self::ExpertsUp,
        Self::GateUp,
        Self::Greedy,
        Self::Heads,
        Self::Norm,
        Self::PassBy,
        Self::Product,
        Self::ProductUnits,
        Self::ProductWide,
        Self::Replace,
        Self::Rope,
        Self::Route,
        Self::Scan,
        Self::Select,
        Self::Shift,
        Self::Store,
        Self::Sums,
        Self::Turn,
    ];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        self.file().0
    }

    /// Its name and its text.
    fn file(self) -> (&'static str, &'static str) {
        match self {
            Self::Attend => ("attend", include_str!("../shaders/attend.wgsl")),
            Self::Convolve => ("convolve", include_str!("../shaders/convolve.wgsl")),
            Self::Delta => ("delta", include_str!("../shaders/delta.wgsl")),
            Self::DrawChange => ("draw_change", include_str!("../shaders/draw_change.wgsl")),
            Self::DrawCount => ("draw_count", include_str!("../shaders/draw_count.wgsl")),
            Self::DrawCut => ("draw_cut", include_str!("../shaders/draw_cut.wgsl")),
            Self::DrawFirst => ("draw_first", include_str!("../shaders/draw_first.wgsl")),
            Self::DrawList => ("draw_list", include_str!("../shaders/draw_list.wgsl")),
            Self::DrawPick => ("draw_pick", include_str!("../shaders/draw_pick.wgsl")),
            Self::DrawWeigh => ("draw_weigh", include_str!("../shaders/draw_weigh.wgsl")),
            Self::Each => ("each", include_str!("../shaders/each.wgsl")),
            Self::Embed => ("embed", include_str!("../shaders/embed.wgsl")),
            Self::ExpertsDown => ("experts_down", include_str!("../shaders/experts_down.wgsl")),
            Self::ExpertsUp => ("experts_up", include_str!("../shaders/experts_up.wgsl")),
            Self::GateUp => ("gate_up", include_str!("../shaders/gate_up.wgsl")),
            Self::Greedy => ("greedy", include_str!("../shaders/greedy.wgsl")),
            Self::Heads => ("heads", include_str!("../shaders/heads.wgsl")),
            Self::Norm => ("norm", include_str!("../shaders/norm.wgsl")),
            Self::PassBy => ("pass_by", include_str!("../shaders/pass_by.wgsl")),
            Self::Product => ("product", include_str!("../shaders/product.wgsl")),
            Self::ProductUnits => ("product_units", include_str!("../shaders/product_units.wgsl")),
            Self::ProductWide => ("product_wide", include_str!("../shaders/product_wide.wgsl")),
            Self::Replace => ("replace", include_str!("../shaders/replace.wgsl")),
            Self::Rope => ("rope", include_str!("../shaders/rope.wgsl")),
            Self::Route => ("route", include_str!("../shaders/route.wgsl")),
            Self::Scan => ("scan", include_str!("../shaders/scan.wgsl")),
            Self::Select => ("select", include_str!("../shaders/select.wgsl")),
            Self::Shift => ("shift", include_str!("../shaders/shift.wgsl")),
            Self::Store => ("store", include_str!("../shaders/store.wgsl")),
            Self::Sums => ("sums", include_str!("../shaders/sums.wgsl")),
            Self::Turn => ("turn", include_str!("../shaders/turn.wgsl")),
        }
    }

    /// Matrices that it unpacks at least.
    fn matrices(self) -> usize {
        match self {
            Self::Embed | Self::Heads | Self::Product | Self::ProductUnits | Self::ProductWide | Self::ExpertsDown => 1,
            Self::ExpertsUp | Self::GateUp => 2,
            Self::Attend
            | Self::Convolve
            | Self::Delta
            | Self::DrawChange
            | Self::DrawCount
            | Self::DrawCut
            | Self::DrawFirst
            | Self::DrawList
            | Self::DrawPick
            | Self::DrawWeigh
            | Self::Each
            | Self::Greedy
            | Self::Norm
            | Self::PassBy
            | Self::Replace
            | Self::Rope
            | Self::Route
            | Self::Scan
            | Self::Select
            | Self::Shift
            | Self::Store
            | Self::Sums
            | Self::Turn => 0,
        }
    }

    /// The texts that kernels of draws share, as far as it takes them; none where it is no such kernel.
    fn of_draws(self) -> &'static [&'static str] {
        const DRAW: &str = include_str!("../shaders/draw.wgsl");
        const SHARED: &str = include_str!("../shaders/draw_shared.wgsl");
        const OWN: &str = include_str!("../shaders/draw_own.wgsl");
        const WIDE: &str = include_str!("../shaders/draw_wide.wgsl");
        const BEFORE: &str = include_str!("../shaders/draw_before.wgsl");
        const TALLY: &str = include_str!("../shaders/draw_tally.wgsl");
        const REACHED: &str = include_str!("../shaders/draw_reached.wgsl");
        const WEIGHT: &str = include_str!("../shaders/draw_weight.wgsl");
        match self {
            Self::DrawChange => &[DRAW],
            Self::DrawCount => &[DRAW, SHARED, WIDE, TALLY],
            Self::DrawCut => &[DRAW, OWN, WIDE, TALLY, BEFORE, REACHED],
            Self::DrawFirst => &[DRAW, SHARED],
            Self::DrawList => &[DRAW, SHARED, WIDE, TALLY, BEFORE, REACHED],
            Self::DrawPick => &[DRAW, OWN, WIDE, WEIGHT, BEFORE],
            Self::DrawWeigh => &[DRAW, SHARED, WEIGHT],
            Self::Attend
            | Self::Convolve
            | Self::Delta
            | Self::Each
            | Self::Embed
            | Self::ExpertsDown
            | Self::ExpertsUp
            | Self::GateUp
            | Self::Greedy
            | Self::Heads
            | Self::Norm
            | Self::PassBy
            | Self::Product
            | Self::ProductUnits
            | Self::ProductWide
            | Self::Replace
            | Self::Rope
            | Self::Route
            | Self::Scan
            | Self::Select
            | Self::Shift
            | Self::Store
            | Self::Sums
            | Self::Turn => &[],
        }
    }

    /// Whether it knows how the cache is kept.
    fn is_cached(self) -> bool {
        matches!(self, Self::Attend | Self::Store | Self::Turn)
    }
}

/// The storage types that a matrix of a kernel may have, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Types(u32);

impl Types {
    /// One type.
    pub(crate) const fn of(quant: Quant) -> Self {
        Self(1 << quant as u32)
    }

    /// Those of both.
    #[must_use]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, quant: Quant) -> bool {
        (quant as u32) < u32::BITS && self.0 & 1 << quant as u32 != 0
    }
}

/// A matrix unit: what multiplies square matrices of halves and adds up in single precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Unit {
    /// Rows and columns of its matrices: 8 or 16.
    pub(crate) size: u32,
    /// Threads of a workgroup of products in units: of four subgroups, where their size is known.
    pub(crate) threads: u32,
    /// From so many rows of the batch on they go through units.
    pub(crate) rows_min: u32,
}

impl Unit {
    /// Rows of a matrix, and rows of the batch, that a workgroup makes the outputs of.
    pub(crate) fn tile(self) -> [usize; 2] {
        [8, 4].map(|units| units * self.size as usize)
    }
}

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kernel {
    entry: Entry,
    types: [Types; 3],
    cache: u8,
    tokens: u32,
    by: By,
    unit: Unit,
}

impl Kernel {
    /// One that unpacks nothing.
    pub(crate) fn plain(entry: Entry) -> Self {
        let (types, unit) = ([Types::default(); 3], Unit::default());
        Self { entry, types, cache: 0, tokens: 1, by: By::Eight, unit }
    }

    /// One that reads or writes a cache.
    pub(crate) fn cached(entry: Entry, kind: CacheType) -> Self {
        let cache = match kind {
            CacheType::F32 => 0,
            CacheType::F16 => 1,
            CacheType::Q8_0 => 2,
            CacheType::Q4_0 => 3,
        };
        Self { cache, ..Self::plain(entry) }
    }

    /// One whose matrices have these types, and meet so many rows at a time.
    pub(crate) fn on(entry: Entry, types: &[Types], tokens: u32) -> Self {
        let mut all = [Types::default(); 3];
        all[..types.len()].copy_from_slice(types);
        Self { types: all, tokens, ..Self::plain(entry) }
    }

    /// The same by eight values or by runs.
    pub(crate) fn by(self, by: By) -> Self {
        Self { by, ..self }
    }

    /// The one that works in matrix units.
    pub(crate) fn in_units(types: Types, unit: Unit) -> Self {
        Self { unit, ..Self::on(Entry::ProductUnits, &[types], 1) }
    }

    /// What it is a variant of.
    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }

    /// In words.
    pub(crate) fn name(&self) -> &'static str {
        self.entry.name()
    }

    /// The whole text.
    pub(crate) fn source(&self, lanes: Lanes) -> String {
        let Self { entry, types, tokens, by, .. } = self;
        let parts = types.iter().take_while(|types| **types != Types::default()).count();
        let mut text = String::new();
        if *entry == Entry::ProductUnits {
            text.push_str("enable f16;\nenable wgpu_cooperative_matrix;\n");
        }
        text.push_str(&self.constants(lanes));
        text.push_str(&self.prelude());
        text.push_str(match lanes {
            Lanes::Memory(_) => include_str!("../shaders/reduce_memory.wgsl"),
            Lanes::Subgroup(_) => include_str!("../shaders/reduce_subgroup.wgsl"),
        });
        if parts > 0 {
            text.push_str(include_str!("../shaders/eight.wgsl"));
        }
        if entry.is_cached() {
            text.push_str(include_str!("../shaders/cache.wgsl"));
            if *entry != Entry::Attend {
                text.push_str(include_str!("../shaders/put.wgsl"));
            }
        }
        if matches!(entry, Entry::ExpertsUp | Entry::ExpertsDown) {
            text.push_str(include_str!("../shaders/expert_table.wgsl"));
        }
        if matches!(entry, Entry::ProductUnits | Entry::ProductWide) {
            text.push_str(include_str!("../shaders/tile.wgsl"));
        }
        text.extend(entry.of_draws().iter().copied());
        if *by == By::Run {
            let has_less = types.iter().filter_map(|types| RunOf::find(*types)).any(|run| run.has_less);
            let _ = writeln!(text, "const HAS_LESS: bool = {has_less};");
            text.push_str(include_str!("../shaders/run.wgsl"));
            if *tokens > 1 {
                text.push_str(include_str!("../shaders/meet_four.wgsl"));
            }
        }
        for (index, types) in types.iter().take(parts).enumerate() {
            let unpacker = match by {
                By::Eight => unpacker(*types),
                By::Run => RunOf::find(*types).expect("one of those types").text(),
            };
            text.push_str(&(unpacker + self.part()).replace('$', &index.to_string()));
        }
        text.push_str(self.rest());
        let main = entry.file().1;
        text.push_str(&match parts {
            3 => main.replace("//PART1 ", "").replace("//PART2 ", ""),
            2 => main.replace("//PART1 ", ""),
            _ => main.to_owned(),
        });
        text
    }

    /// What every kernel begins with; matrices whose blocks are taken four words at a time are declared so.
    fn prelude(&self) -> String {
        let mut text = include_str!("../shaders/prelude.wgsl").to_owned();
        for (index, types) in self.types.iter().enumerate() {
            if self.by == By::Run && RunOf::find(*types).is_some_and(|run| run.is_aligned) {
                let declared = |words| format!("weights{index}: array<{words}>;");
                text = text.replace(&declared("u32"), &declared("vec4<u32>"));
            }
        }
        text
    }

    /// What of its text is written for each matrix.
    fn part(&self) -> &'static str {
        match (self.entry, self.by, self.tokens) {
            (Entry::Product, By::Run, 1) => include_str!("../shaders/product_part_run.wgsl"),
            (Entry::Product, By::Run, _) => include_str!("../shaders/product_part_runs.wgsl"),
            (Entry::Product, By::Eight, 1) => include_str!("../shaders/product_part_one.wgsl"),
            (Entry::Product, By::Eight, _) => include_str!("../shaders/product_part.wgsl"),
            _ => "",
        }
    }

    /// What of its text is written once, for how it takes matrices' rows.
    fn rest(&self) -> &'static str {
        match (self.entry, self.by) {
            (Entry::GateUp, By::Run) if self.tokens > 1 => include_str!("../shaders/gate_up_part_runs.wgsl"),
            (Entry::GateUp, By::Eight) => include_str!("../shaders/gate_up_part.wgsl"),
            (Entry::GateUp, By::Run) => include_str!("../shaders/gate_up_part_run.wgsl"),
            (Entry::ExpertsUp, By::Eight) => include_str!("../shaders/experts_up_part.wgsl"),
            (Entry::ExpertsUp, By::Run) => include_str!("../shaders/experts_up_part_run.wgsl"),
            (Entry::ExpertsDown, By::Eight) => include_str!("../shaders/experts_down_part.wgsl"),
            (Entry::ExpertsDown, By::Run) => include_str!("../shaders/experts_down_part_run.wgsl"),
            _ => "",
        }
    }

    /// The numbers that the text is written with.
    fn constants(&self, lanes: Lanes) -> String {
        let Self { entry, cache, tokens, by, unit, .. } = *self;
        let mut text = String::new();
        let [product_rows, gated_rows] = lanes.product_rows(tokens, by);
        let [each, each_gated] = each(tokens);
        let constants = [
            ("EACH", each),
            ("EACH_GATED", each_gated),
            ("PRODUCT_THREADS", lanes.product_threads(by)),
            ("PRODUCT_ROWS", product_rows),
            ("GATED_ROWS", gated_rows),
            ("THREADS", lanes.threads()),
            ("LANES", lanes.count()),
            ("ROWS", lanes.rows()),
            ("PARTS_REDUCED", lanes.rows()),
            ("TOKENS", tokens),
            ("CACHE", u32::from(cache)),
            ("EXPERTS_MAX", EXPERTS_MAX as u32),
            ("GROUPS_MAX", GROUPS_MAX),
            ("TAPS_MAX", TAPS_MAX),
            ("STATE_COLUMNS_MAX", STATE_COLUMNS_MAX),
            ("STATE_WIDTH_MAX", STATE_WIDTH_MAX),
            ("ROW_MAX", ROW_VALUES_MAX as u32),
            ("ROW_FOURS_MAX", ROW_VALUES_MAX as u32 / 4),
        ];
        let [expert_up_rows, expert_down_rows] = lanes.expert_rows(by);
        let [each_expert_up, each_expert_down] = each_of_experts(by);
        let of_experts = [
            ("EXPERT_THREADS", lanes.expert_threads(by)),
            ("EACH_EXPERT_UP", each_expert_up),
            ("EACH_EXPERT_DOWN", each_expert_down),
            ("EXPERT_UP_ROWS", expert_up_rows),
            ("EXPERT_DOWN_ROWS", expert_down_rows),
        ];
        let of_experts = of_experts.into_iter().filter(|_| matches!(entry, Entry::ExpertsUp | Entry::ExpertsDown));
        let of_runs = [("TILE_RUNS", tile_runs(lanes, tokens)), ("RUN_TOKENS", tokens)];
        let of_runs = of_runs.into_iter().filter(|_| by == By::Run);
        for (name, value) in constants.into_iter().chain(of_experts).chain(of_runs) {
            let _ = writeln!(text, "const {name}: u32 = {value}u;");
        }
        if !entry.of_draws().is_empty() {
            for (name, value) in choose::CONSTANTS {
                let _ = writeln!(text, "const {name}: u32 = {value}u;");
            }
        }
        if entry == Entry::ProductUnits {
            let Unit { size, threads, .. } = unit;
            let _ = writeln!(text, "const UNIT: u32 = {size}u;\nconst UNIT_THREADS: u32 = {threads}u;");
            for (name, scalar, role) in [("Inputs", "f16", "A"), ("Weights", "f16", "B"), ("Sums", "f32", "C")] {
                let _ = writeln!(text, "alias {name} = coop_mat{size}x{size}<{scalar}, {role}>;");
            }
        }
        text
    }
}

/// How eight values of a row of one of these types are unpacked, for the matrix `$`.
fn unpacker(types: Types) -> String {
    let mut text = include_str!("../shaders/stored.wgsl").to_owned();
    let mut cases = String::new();
    let known = UNPACKERS.iter().filter(|(quant, ..)| types.has(*quant));
    for (quant, name, unpack) in known {
        text.push_str(unpack);
        let number = *quant as u32;
        let _ = writeln!(cases, "        case {number}u: {{ return {name}_eight$(row, columns, group); }}");
    }
    let _ = write!(
        text,
        "
// Values 8 * group and up of the row that begins with byte `row`.
fn eight$(quant: u32, row: u32, columns: u32, group: u32) -> Eight {{
    switch quant {{
{cases}        default: {{ return Eight(vec4<f32>(0.0), vec4<f32>(0.0)); }}
    }}
}}

"
    );
    text
}

/// How a run of a row of a type is unpacked.
struct RunOf {
    quant: Quant,
    text: &'static str,
    /// Whether every block begins at a multiple of four words, so that it is read four words at a time.
    is_aligned: bool,
    /// Whether something is taken from every value.
    has_less: bool,
}

impl RunOf {
    /// That of the one type; nothing where its rows are taken by eight alone, or there are several types.
    fn find(types: Types) -> Option<&'static Self> {
        RUNS.iter().find(|run| types == Types::of(run.quant))
    }

    /// The whole text, for the matrix `$`.
    fn text(&self) -> String {
        let stored = [include_str!("../shaders/stored.wgsl"), include_str!("../shaders/run/sixteen_bytes.wgsl")];
        if self.is_aligned { self.text.to_owned() } else { stored.concat() + self.text }
    }
}

/// The types that are taken by runs.
#[rustfmt::skip]
const RUNS: &[RunOf] = &[
    RunOf { quant: Quant::BF16, text: include_str!("../shaders/run/bf16.wgsl"), is_aligned: true, has_less: false },
    RunOf { quant: Quant::Q4_0, text: include_str!("../shaders/run/q4_0.wgsl"), is_aligned: false, has_less: false },
    RunOf { quant: Quant::Q8_0, text: include_str!("../shaders/run/q8_0.wgsl"), is_aligned: false, has_less: false },
    RunOf { quant: Quant::Q4_K, text: include_str!("../shaders/run/q4_k.wgsl"), is_aligned: true, has_less: true },
    RunOf { quant: Quant::Q5_K, text: include_str!("../shaders/run/q5_k.wgsl"), is_aligned: true, has_less: true },
    RunOf { quant: Quant::Q6_K, text: include_str!("../shaders/run/q6_k.wgsl"), is_aligned: false, has_less: false },
];

/// Every type that there is an unpacker for, its name in the text, and the text.
const UNPACKERS: &[(Quant, &str, &str)] = &[
    (Quant::F32, "f32", include_str!("../shaders/quant/f32.wgsl")),
    (Quant::F16, "f16", include_str!("../shaders/quant/f16.wgsl")),
    (Quant::BF16, "bf16", include_str!("../shaders/quant/bf16.wgsl")),
    (Quant::Q4_0, "q4_0", include_str!("../shaders/quant/q4_0.wgsl")),
    (Quant::Q4_1, "q4_1", include_str!("../shaders/quant/q4_1.wgsl")),
    (Quant::Q5_0, "q5_0", include_str!("../shaders/quant/q5_0.wgsl")),
    (Quant::Q5_1, "q5_1", include_str!("../shaders/quant/q5_1.wgsl")),
    (Quant::Q8_0, "q8_0", include_str!("../shaders/quant/q8_0.wgsl")),
    (Quant::Q2_K, "q2_k", include_str!("../shaders/quant/q2_k.wgsl")),
    (Quant::Q3_K, "q3_k", include_str!("../shaders/quant/q3_k.wgsl")),
    (Quant::Q4_K, "q4_k", include_str!("../shaders/quant/q4_k.wgsl")),
    (Quant::Q5_K, "q5_k", include_str!("../shaders/quant/q5_k.wgsl")),
    (Quant::Q6_K, "q6_k", include_str!("../shaders/quant/q6_k.wgsl")),
    (Quant::IQ4_NL, "iq4_nl", include_str!("../shaders/quant/iq4_nl.wgsl")),
    (Quant::IQ4_XS, "iq4_xs", include_str!("../shaders/quant/iq4_xs.wgsl")),
    (Quant::MXFP4, "mxfp4", include_str!("../shaders/quant/mxfp4.wgsl")),
];

/// Whether matrices of these types can be taken by runs.
pub(crate) fn has_runs(types: &[Types]) -> bool {
    types.iter().all(|types| RunOf::find(*types).is_some())
}

/// Whether matrices of this type can be unpacked.
pub(crate) fn is_known(quant: Quant) -> bool {
    UNPACKERS.iter().any(|(known, ..)| *known == quant)
}

/// Every kernel as text, by name: of products one for each storage type, of what knows the cache one for each way of keeping it. For
/// who wants to read or translate them.
pub fn catalogue(lanes: Lanes) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in Entry::ALL {
        let name = entry.file().0;
        if entry.is_cached() {
            for (kind, word) in
                [(CacheType::F32, "f32"), (CacheType::F16, "f16"), (CacheType::Q8_0, "q8_0"), (CacheType::Q4_0, "q4_0")]
            {
                all.push((format!("{name}_{word}"), Kernel::cached(entry, kind).source(lanes)));
            }
        } else if entry == Entry::Product {
            for (quant, word, _) in UNPACKERS {
                let kernel = Kernel::on(entry, &[Types::of(*quant)], 1);
                all.push((format!("{name}_{word}"), kernel.source(lanes)));
                if has_runs(&[Types::of(*quant)]) {
                    all.push((format!("{name}_run_{word}"), kernel.by(By::Run).source(lanes)));
                }
            }
            let three = [Quant::Q4_K, Quant::Q4_K, Quant::Q6_K].map(Types::of);
            all.push((format!("{name}_three"), Kernel::on(entry, &three, 8).source(lanes)));
            all.push((format!("{name}_run_three"), Kernel::on(entry, &three, 4).by(By::Run).source(lanes)));
        } else if entry == Entry::ProductUnits {
            let unit = Unit { size: 8, threads: 128, rows_min: 64 };
            all.push((name.to_owned(), Kernel::in_units(Types::of(Quant::Q4_K), unit).source(lanes)));
        } else if entry.matrices() > 0 {
            let types = [Types::of(Quant::Q4_K), Types::of(Quant::Q6_K)];
            let kernel = Kernel::on(entry, &types[..entry.matrices()], 1);
            all.push((name.to_owned(), kernel.source(lanes)));
            if !kernel.rest().is_empty() {
                all.push((format!("{name}_run"), kernel.by(By::Run).source(lanes)));
            }
        } else {
            all.push((name.to_owned(), Kernel::plain(entry).source(lanes)));
        }
    }
    all
}
