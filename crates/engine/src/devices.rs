//! The devices there are, and the executor for the one that was chosen. The only file that knows which are built in.

use kauri_arch::Shape;
use kauri_device::{Adapted, CacheType, Ceilings, DeviceError, Ends, Executor, Plan, Split, Stage, Weight, split};
use kauri_device_cpu::{Cpu, CpuExecutor, Isa, Kernels, Topology};
use kauri_formats::Quant;

use crate::error::Error;

/// Threads beyond this many for each logical CPU only wait for each other.
const THREADS_A_CPU_MAX: usize = 4;

/// Where a model runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
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

/// What of a device was asked for.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(any(feature = "cuda", feature = "wgpu")), expect(dead_code, reason = "some of it only a GPU heeds"))]
pub(crate) struct Asked {
    pub(crate) choice: DeviceChoice,
    pub(crate) isa: Option<Isa>,
    /// Already counted: see [`threads`].
    pub(crate) threads: usize,
    /// Whether a GPU, too, is to compute each output in one order whoever shares the batch, as a CPU does.
    pub(crate) exact: bool,
    /// Layers that a GPU is to have.
    pub(crate) layers: Layers,
    /// Takes what a person should know, in words.
    pub(crate) notice: fn(&str),
}

/// How many of a model's layers a GPU is to have: the last ones; the CPU has the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layers {
    /// So many, as somebody asked.
    Asked(u32),
    /// So many at most: fewer where it has no room for them after all.
    Foreseen(u32),
}

/// Of a model's layers, the share that is tried without where a GPU had no room for what was foreseen.
const LAYERS_STEP: usize = 16;

/// Tokens of one step where nobody says otherwise: a GPU is busy with fewer kernels, and weights are read less often, in larger pieces.
const STEP_TOKENS: u32 = 512;
const STEP_TOKENS_ON_GPU: u32 = 2048;

/// A model on the chosen device.
pub(crate) fn executor(asked: Asked, shape: Shape<Weight>, plan: Plan) -> Result<Box<dyn Executor>, Error> {
    let Asked { choice, isa, threads, layers, notice, .. } = asked;
    let none = layers == Layers::Asked(0);
    match choice {
        DeviceChoice::Auto => {
            if isa.is_none()
                && !none
                && let Some(executor) =
                    cuda::preferred(asked, &shape, plan).or_else(|| wgpu::preferred(asked, &shape, plan))
            {
                return Ok(executor);
            }
            if matches!(layers, Layers::Asked(1..)) {
                notice("there is no GPU that can be used, so --gpu-layers says nothing: all layers are on the CPU");
            }
            cpu(isa, threads, shape, plan)
        }
        DeviceChoice::Cuda | DeviceChoice::Wgpu if none => cpu(isa, threads, shape, plan),
        DeviceChoice::Cpu if matches!(layers, Layers::Asked(1..)) => {
            Err(Error::NoDevice("a CPU has no GPU layers; leave --gpu-layers or --device cpu out".to_owned()))
        }
        DeviceChoice::Cpu => cpu(isa, threads, shape, plan),
        DeviceChoice::Cuda => cuda::executor(asked, &shape, plan),
        DeviceChoice::Wgpu => wgpu::executor(asked, &shape, plan),
    }
}

fn cpu(isa: Option<Isa>, threads: usize, shape: Shape<Weight>, plan: Plan) -> Result<Box<dyn Executor>, Error> {
    Ok(Box::new(CpuExecutor::new(shape, plan, kernels(isa)?, threads)?))
}

fn kernels(isa: Option<Isa>) -> Result<Kernels, Error> {
    let wanted = isa.unwrap_or_else(Isa::best);
    Kernels::new(wanted).ok_or_else(|| Error::NoDevice(format!("this CPU has no {}; use --isa auto", wanted.name())))
}

/// A model on a GPU that `stage` makes: whole, or its last layers, with the first on the CPU.
#[cfg_attr(not(any(feature = "cuda", feature = "wgpu")), expect(dead_code, reason = "there is no GPU to share with"))]
fn shared<S: Stage + 'static>(
    asked: Asked,
    shape: &Shape<Weight>,
    plan: Plan,
    stage: impl Fn(&Shape<Weight>, Ends, Plan) -> Result<S, DeviceError>,
) -> Result<Box<dyn Executor>, Error> {
    let all = shape.blocks.len();
    let (Layers::Asked(layers) | Layers::Foreseen(layers)) = asked.layers;
    let mut layers = (layers as usize).min(all);
    loop {
        let made = if layers == all {
            stage(shape, Ends::BOTH, plan).map(|whole| -> Box<dyn Executor> { Box::new(whole) })
        } else {
            // A device whose layers with a window keep pages sets the others' way of keeping.
            let plan = Plan { ring: None, ..plan };
            let (back, ends) = split::part(shape, all - layers..all);
            match stage(&back, ends, plan) {
                Err(error) => Err(error),
                Ok(back) => {
                    let (front, ends) = split::part(shape, 0..all - layers);
                    let front = CpuExecutor::part(front, ends, plan, kernels(asked.isa)?, asked.threads)?;
                    let stages: Vec<(Box<dyn Stage>, usize)> =
                        vec![(Box::new(front), all - layers), (Box::new(back), layers)];
                    Ok(Box::new(Split::new(shape, stages)) as Box<dyn Executor>)
                }
            }
        };
        let fewer = layers.saturating_sub((all / LAYERS_STEP).max(1));
        match made {
            Err(DeviceError::OutOfMemory { .. }) if matches!(asked.layers, Layers::Foreseen(_)) && fewer > 0 => {
                layers = fewer;
            }
            made => return Ok(made?),
        }
    }
}

/// The CPU without an executor around it, for who looks at what it computes.
pub(crate) fn cpu_alone(threads_wanted: Option<usize>, shape: &Shape<Weight>, plan: &Plan) -> Result<Cpu, Error> {
    let isa = Isa::best();
    let kernels = Kernels::new(isa).ok_or_else(|| Error::NoDevice(format!("this CPU has no {}", isa.name())))?;
    Ok(Cpu::new(shape, plan, kernels, threads(threads_wanted)))
}

/// NVIDIA GPUs, where they are built in.
#[cfg(feature = "cuda")]
mod cuda {
    use std::sync::OnceLock;

    use kauri_device_cuda::{Arithmetic, CudaExecutor, Device, Unavailable};

    use super::{Asked, Error, Executor, Gpu, Plan, Shape, Weight};

    fn arithmetic(asked: Asked) -> Arithmetic {
        if asked.exact { Arithmetic::Exact } else { Arithmetic::Fast }
    }

    /// A model on the GPU.
    pub(super) fn executor(asked: Asked, shape: &Shape<Weight>, plan: Plan) -> Result<Box<dyn Executor>, Error> {
        let device = Device::open().map_err(|reason| Error::NoDevice(format!("{reason}; use --device cpu")))?;
        on(&device, asked, shape, plan)
    }

    fn on(device: &Device, asked: Asked, shape: &Shape<Weight>, plan: Plan) -> Result<Box<dyn Executor>, Error> {
        super::shared(asked, shape, plan, |part, ends, plan| {
            CudaExecutor::part(device, part, ends, plan, arithmetic(asked))
        })
    }

    /// The same where nobody asked for it: what is missing is said, and the CPU takes its place. That a machine has no GPU is no news.
    pub(super) fn preferred(asked: Asked, shape: &Shape<Weight>, plan: Plan) -> Option<Box<dyn Executor>> {
        let reason = match Device::open() {
            Ok(device) => match on(&device, asked, shape, plan) {
                Ok(executor) => return Some(executor),
                Err(error) => error.to_string(),
            },
            Err(Unavailable::NoKernels | Unavailable::NoDriver | Unavailable::NoDevice) => return None,
            Err(reason) => reason.to_string(),
        };
        (asked.notice)(&format!("{reason}; running on the CPU"));
        None
    }

    /// Whether there is a GPU that can be used; looked for once.
    pub(super) fn is_there() -> bool {
        static FOUND: OnceLock<bool> = OnceLock::new();
        *FOUND.get_or_init(|| Device::open().is_ok())
    }

    /// The GPU that will be used.
    pub(super) fn gpu() -> Result<Gpu, String> {
        let device = Device::open().map_err(|reason| reason.to_string())?;
        let (free_bytes, total_bytes) = device.memory().map_err(|reason| reason.to_string())?;
        Ok(Gpu { name: device.name(), free_bytes, total_bytes })
    }
}

/// NVIDIA GPUs, where they are not built in.
#[cfg(not(feature = "cuda"))]
mod cuda {
    use super::{Asked, Error, Executor, Gpu, Plan, Shape, Weight};

    pub(super) fn executor(_asked: Asked, _shape: &Shape<Weight>, _plan: Plan) -> Result<Box<dyn Executor>, Error> {
        Err(Error::NoDevice("this build has no CUDA device; use --device cpu".to_owned()))
    }

    pub(super) fn preferred(_asked: Asked, _shape: &Shape<Weight>, _plan: Plan) -> Option<Box<dyn Executor>> {
        None
    }

    pub(super) fn is_there() -> bool {
        false
    }

    pub(super) fn gpu() -> Result<Gpu, String> {
        Err("this build has no CUDA device".to_owned())
    }
}

/// GPUs through Vulkan or Metal, where they are built in.
#[cfg(feature = "wgpu")]
mod wgpu {
    use std::sync::OnceLock;

    use kauri_device_wgpu::{Arithmetic, Device, Reduction, Unavailable, WgpuExecutor};

    use super::{Adapter, Asked, Error, Executor, Plan, Shape, Weight};

    fn arithmetic(asked: Asked) -> Arithmetic {
        if asked.exact { Arithmetic::Exact } else { Arithmetic::Fast }
    }

    /// A model on the best adapter, one that computes on the CPU included: whoever asks for this device by name may want to see that.
    pub(super) fn executor(asked: Asked, shape: &Shape<Weight>, plan: Plan) -> Result<Box<dyn Executor>, Error> {
        let device = Device::open(true, Reduction::Best)
            .map_err(|reason| Error::NoDevice(format!("{reason}; use --device cpu")))?;
        on(&device, asked, shape, plan)
    }

    fn on(device: &Device, asked: Asked, shape: &Shape<Weight>, plan: Plan) -> Result<Box<dyn Executor>, Error> {
        super::shared(asked, shape, plan, |part, ends, plan| {
            WgpuExecutor::part(device, part, ends, plan, arithmetic(asked))
        })
    }

    /// The same where nobody asked for it: only on a GPU that is one. What is missing is said, and the CPU takes its place.
    pub(super) fn preferred(asked: Asked, shape: &Shape<Weight>, plan: Plan) -> Option<Box<dyn Executor>> {
        let reason = match Device::open(false, Reduction::Best) {
            Ok(device) => match on(&device, asked, shape, plan) {
                Ok(executor) => return Some(executor),
                Err(error) => error.to_string(),
            },
            Err(Unavailable::NoAdapter) => return None,
            Err(reason) => reason.to_string(),
        };
        (asked.notice)(&format!("{reason}; running on the CPU"));
        None
    }

    /// Whether there is a GPU that can be used, and that is one; looked for once.
    pub(super) fn is_there() -> bool {
        static FOUND: OnceLock<bool> = OnceLock::new();
        *FOUND.get_or_init(|| adapters().iter().any(|adapter| !adapter.is_software && adapter.lacks.is_none()))
    }

    /// What this machine has.
    pub(super) fn adapters() -> Vec<Adapter> {
        let adapters = kauri_device_wgpu::adapters().into_iter();
        let of = |adapter: kauri_device_wgpu::Adapter| Adapter {
            name: adapter.name,
            is_software: adapter.is_software,
            binding_bytes_max: adapter.binding_bytes_max,
            subgroup: Some(adapter.subgroup).filter(|sizes| sizes[0] > 0),
            has_f16: adapter.has_f16,
            has_matrix_units: adapter.has_matrix_units,
            lacks: adapter.lacks.map(str::to_owned),
        };
        adapters.map(of).collect()
    }
}

/// GPUs through Vulkan or Metal, where they are not built in.
#[cfg(not(feature = "wgpu"))]
mod wgpu {
    use super::{Adapter, Asked, Error, Executor, Plan, Shape, Weight};

    pub(super) fn executor(_asked: Asked, _shape: &Shape<Weight>, _plan: Plan) -> Result<Box<dyn Executor>, Error> {
        Err(Error::NoDevice("this build has no wgpu device; use --device cpu".to_owned()))
    }

    pub(super) fn preferred(_asked: Asked, _shape: &Shape<Weight>, _plan: Plan) -> Option<Box<dyn Executor>> {
        None
    }

    pub(super) fn is_there() -> bool {
        false
    }

    pub(super) fn adapters() -> Vec<Adapter> {
        Vec::new()
    }
}

impl DeviceChoice {
    /// Most tokens of one step there, unless more are asked for: what a prompt is read in pieces of.
    pub fn step_tokens(self, isa: Option<Isa>) -> u32 {
        let on_cuda = match self {
            Self::Auto => isa.is_none() && cuda::is_there(),
            Self::Cuda => true,
            Self::Cpu | Self::Wgpu => false,
        };
        if on_cuda { STEP_TOKENS_ON_GPU } else { STEP_TOKENS }
    }
}

/// How keys and values are best kept: as bytes where products take activations as bytes, which costs as little and runs as much
/// faster; in half precision where the model, the instruction set or a GPU computes in more.
pub(crate) fn cache(choice: DeviceChoice, isa: Option<Isa>, shape: &Shape<Weight>) -> CacheType {
    if on_gpu(choice, isa) {
        return CacheType::F16;
    }
    let mut bytes = false;
    shape.for_each(|weight| match weight {
        Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) => {
            bytes |= !matches!(matrix.quant, Quant::F32 | Quant::F16 | Quant::BF16);
        }
        Weight::Vector(_) => {}
    });
    if bytes && isa.unwrap_or_else(Isa::best) != Isa::Scalar { CacheType::Q8_0 } else { CacheType::F16 }
}

/// Bytes of the memory of the GPU that a model will run on that are free; nothing where it runs on none, or where that cannot be told.
pub(crate) fn gpu_free_bytes(choice: DeviceChoice, isa: Option<Isa>) -> Option<u64> {
    let on_cuda = match choice {
        DeviceChoice::Auto => isa.is_none() && cuda::is_there(),
        DeviceChoice::Cuda => true,
        DeviceChoice::Cpu | DeviceChoice::Wgpu => false,
    };
    cuda::gpu().ok().filter(|_| on_cuda).map(|gpu| gpu.free_bytes)
}

/// Whether a model will run on a GPU.
pub(crate) fn on_gpu(choice: DeviceChoice, isa: Option<Isa>) -> bool {
    match choice {
        DeviceChoice::Auto => isa.is_none() && (cuda::is_there() || wgpu::is_there()),
        DeviceChoice::Cuda | DeviceChoice::Wgpu => true,
        DeviceChoice::Cpu => false,
    }
}

/// What this machine has.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// Threads of those cores.
    pub logical_cpus: usize,
    /// The best instructions that kauri has kernels for.
    pub isa: Isa,
    /// All that this CPU has, the best first.
    pub isas: Vec<Isa>,
    /// What was measured on those cores.
    pub ceilings: Ceilings,
    /// The GPU, or why there is none to be used.
    pub gpu: Result<Gpu, String>,
    /// What `--device wgpu` could run on, the best first; none in a build without it.
    pub adapters: Vec<Adapter>,
}

/// A GPU, or what stands in for one, as Vulkan or Metal offer it.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Its name, the interface and the driver.
    pub name: String,
    /// Whether it is a program that computes on the CPU: never taken unless it is asked for.
    pub is_software: bool,
    /// Bytes of a matrix, or of a layer's cache, at most in one piece.
    pub binding_bytes_max: u64,
    /// The smallest and the largest subgroup, where there are any.
    pub subgroup: Option<[u32; 2]>,
    /// Whether shaders have numbers of half precision.
    pub has_f16: bool,
    /// Whether there are matrix units that can be used.
    pub has_matrix_units: bool,
    /// What it lacks to be used, if anything.
    pub lacks: Option<String>,
}

/// A GPU that kauri can use.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// In words.
    pub name: String,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes that it has.
    pub total_bytes: u64,
}

/// Looks at this machine, and measures it: about a second.
pub fn machine() -> Machine {
    let topology = Topology::of_this_machine();
    Machine {
        cores: topology.threads(),
        logical_cpus: topology.parallelism(),
        isa: Isa::best(),
        isas: Isa::ALL.into_iter().filter(|isa| isa.is_supported()).collect(),
        ceilings: kauri_device_cpu::ceilings(topology.threads()),
        gpu: cuda::gpu(),
        adapters: wgpu::adapters(),
    }
}

/// Whether this CPU has vector instructions that kauri has kernels for.
pub fn has_simd() -> bool {
    Isa::best() != Isa::Scalar
}

/// CPU threads: as many as are wanted, within reason; else one for each core that this process may use.
pub(crate) fn threads(wanted: Option<usize>) -> usize {
    let topology = Topology::of_this_machine();
    wanted.map_or(topology.threads(), |threads| threads.clamp(1, THREADS_A_CPU_MAX * topology.parallelism()))
}
