//! The options that every command with a model shares, and what they settle in the engine.

use clap::{Args, ValueEnum};
use kauri_engine::{CacheType, DeviceChoice, Isa, Options};

use crate::library::{self, PullOptions};
use crate::warming;

/// Which model, where and how.
#[derive(Args, Clone, Debug)]
pub struct ModelOptions {
    /// A name (kauri list), a GGUF file, a safetensors directory, or kauri-nano, the model inside this program (the default).
    #[arg(long, value_name = "NAME|PATH")]
    pub model: Option<String>,

    #[command(flatten)]
    pub pull: PullOptions,

    #[command(flatten)]
    pub engine: EngineOptions,
}

/// Where and how.
#[derive(Args, Clone, Debug)]
pub struct EngineOptions {
    /// Where to run.
    #[arg(long, value_enum, default_value_t)]
    pub device: Device,

    /// Layers that the GPU gets, the last ones; the CPU has the others. As many as there is room for unless said otherwise.
    #[arg(long, value_name = "N")]
    pub gpu_layers: Option<u32>,

    /// Of the first N layers that have experts, those stay on the CPU, while the GPU has all the rest. Where neither this nor --gpu-layers is
    /// given and not all has room, whichever of the two is expected to write faster.
    #[arg(long, value_name = "N", alias = "n-cpu-moe", conflicts_with = "gpu_layers")]
    pub cpu_experts: Option<u32>,

    /// CPU threads; one for each core unless said otherwise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,

    /// Tokens of the window: prompt and answer together.
    #[arg(long, value_name = "N")]
    pub context: Option<u32>,

    /// How keys and values are kept.
    #[arg(long, value_enum, default_value_t)]
    pub cache_type: Cache,

    /// CPU instructions to use.
    #[arg(long, value_enum, default_value_t)]
    pub isa: Instructions,

    /// Keep the weights in memory, so that the system never takes them back.
    #[arg(long)]
    pub lock: bool,

    /// Copy the weights into large pages of memory, which a CPU reads faster: "on" while loading, "auto" with the first tokens of the first
    /// answer and where there is room for two copies, one of which the system gives up when it wants to, and no more than one memory (NUMA).
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub large_pages: LargePages,

    /// Load a model that does not fit into memory all the same: slow, since weights are read from the disk again and again.
    #[arg(long)]
    pub oversize: bool,

    /// Compute more exactly. On a GPU: the same tokens whoever shares a step and however a prompt is cut, as on a CPU always; slower by far.
    /// On a CPU that multiplies two BF16 numbers (AMX, AMD from Zen 4 on, Arm with bf16): what meets BF16 weights keeps single precision; half as fast with many tokens.
    /// On one with AVX-512 and no AMX: prompts meet weights of K-quants as they are stored, not rounded to bytes; a seventh slower.
    #[arg(long)]
    pub exact: bool,
}

/// `--device`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Device {
    /// The best there is.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
    /// Any GPU through Vulkan or Metal.
    Wgpu,
}

/// `--cache-type`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Cache {
    /// Bytes for quantised models, half precision for others.
    #[default]
    Auto,
    /// 4 bytes a value.
    F32,
    /// 2 bytes a value.
    F16,
    /// A byte a value, and a scale for 32.
    #[value(name = "q8_0")]
    Q8,
    /// Half a byte a value, and a scale for 32.
    #[value(name = "q4_0")]
    Q4,
}

/// `--large-pages`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum LargePages {
    /// Where there is room, without a wait.
    #[default]
    Auto,
    /// All, before the first prompt.
    On,
    /// None: weights are read where the system keeps the files.
    Off,
}

/// `--isa`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Instructions {
    /// The best that this CPU has.
    #[default]
    Auto,
    /// None beyond what every CPU has: the reference kernels, in f32.
    Scalar,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX2 with byte products (AVX-VNNI).
    AvxVnni,
    /// AVX-512 with byte products (VNNI).
    Avx512,
    /// AVX-512, and products of tiles (AMX).
    Amx,
    /// NEON with byte products (dotprod).
    Neon,
    /// NEON with those and products of matrices (i8mm, bf16).
    NeonMatrix,
}

impl ModelOptions {
    /// The file of the model that was asked for, pulled if it is not here and that is wanted; `None` for the one inside this program.
    ///
    /// # Errors
    /// When there is none, or it cannot be had.
    pub fn located(&self) -> anyhow::Result<Option<String>> {
        self.locate(self.model.as_deref())
    }

    /// The same for a word that was given elsewhere.
    ///
    /// # Errors
    /// As for [`Self::located`].
    pub fn locate(&self, word: Option<&str>) -> anyhow::Result<Option<String>> {
        let path = library::locate(word, self.pull)?;
        warming::bring(path.as_deref(), &self.options());
        Ok(path)
    }

    /// The engine's options.
    pub fn options(&self) -> Options {
        self.engine.options()
    }
}

impl EngineOptions {
    /// The engine's options.
    pub fn options(&self) -> Options {
        let device = match self.device {
            Device::Auto => DeviceChoice::Auto,
            Device::Cpu => DeviceChoice::Cpu,
            Device::Cuda => DeviceChoice::Cuda,
            Device::Wgpu => DeviceChoice::Wgpu,
        };
        let isa = match self.isa {
            Instructions::Auto => None,
            Instructions::Scalar => Some(Isa::Scalar),
            Instructions::Avx2 => Some(Isa::Avx2),
            Instructions::AvxVnni => Some(Isa::AvxVnni),
            Instructions::Avx512 => Some(Isa::Avx512),
            Instructions::Amx => Some(Isa::Amx),
            Instructions::Neon => Some(Isa::Neon),
            Instructions::NeonMatrix => Some(Isa::NeonMatrix),
        };
        Options {
            device,
            gpu_layers: self.gpu_layers,
            cpu_experts: self.cpu_experts,
            isa,
            batch_tokens: device.step_tokens(isa),
            exact: self.exact,
            notice: |text| eprintln!("note: {text}"),
            threads: self.threads.map(usize::from),
            context_tokens: self.context,
            cache: match self.cache_type {
                Cache::Auto => None,
                Cache::F32 => Some(CacheType::F32),
                Cache::F16 => Some(CacheType::F16),
                Cache::Q8 => Some(CacheType::Q8_0),
                Cache::Q4 => Some(CacheType::Q4_0),
            },
            lock: self.lock,
            large_pages: match self.large_pages {
                LargePages::Auto => None,
                LargePages::On => Some(true),
                LargePages::Off => Some(false),
            },
            oversize: self.oversize,
            ..Options::default()
        }
    }
}
