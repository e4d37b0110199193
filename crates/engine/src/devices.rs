//! The devices there are, and the executor for the one that was chosen. The only file that knows which are built in.

use std::sync::OnceLock;

use kauri_arch::Shape;
use kauri_device::{
    Adapted, Apart, CacheType, Ceilings, DeviceError, Ends, Executor, Plan, Split, Stage, Weight, apart, split,
};
use kauri_device_cpu::{Cpu, CpuExecutor, Isa, Kernels, Topology};
use kauri_formats::Quant;
use kauri_model::fit::{Placement, Rates};

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
    /// Whether a CPU may round what meets weights that are brain floating-point numbers.
    pub(crate) rounding: bool,
    /// What of the model a GPU is to have.
    pub(crate) part: Part,
    /// Takes what a person should know, in words.
    pub(crate) notice: fn(&str),
}

/// What of a model a GPU is to have; the CPU has the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// This, as somebody asked.
    Asked(Placement),
    /// This at most: less where it has no room for it after all.
    Foreseen(Placement),
}

/// Of a model's layers, the share that is tried without where a GPU had no room for what was foreseen.
const LAYERS_STEP: u32 = 16;

/// Tokens of one step where nobody says otherwise: a GPU is busy with fewer kernels, and weights are read less often, in larger pieces.
const STEP_TOKENS: u32 = 512;
const STEP_TOKENS_ON_GPU: u32 = 2048;

/// A model on the chosen device.
pub(crate) fn executor(asked: Asked, shape: Shape<Weight>, plan: Plan) -> Result<Box<dyn Executor>, Error> {
    let Asked { choice, isa, part, notice, .. } = asked;
    let none = part == Part::Asked(Placement::Last(0));
    match choice {
        DeviceChoice::Auto => {
            if isa.is_none()
                && !none
                && let Some(executor) =
                    cuda::preferred(asked, &shape, plan).or_else(|| wgpu::preferred(asked, &shape, plan))
            {
                return Ok(executor);
            }
            match part {
                Part::Asked(Placement::Last(1..)) => {
                    notice("there is no GPU that can be used, so --gpu-layers says nothing: all layers are on the CPU");
                }
                Part::Asked(Placement::AllButExperts(_)) => {
                    notice(
                        "there is no GPU that can be used, so --cpu-experts says nothing: all of the model is on the CPU",
                    );
                }
                Part::Asked(Placement::Last(0)) | Part::Foreseen(_) => {}
            }
            cpu(asked, shape, plan)
        }
        DeviceChoice::Cuda | DeviceChoice::Wgpu if none => cpu(asked, shape, plan),
        DeviceChoice::Cpu if matches!(part, Part::Asked(Placement::Last(1..))) => {
            Err(Error::NoDevice("a CPU has no GPU layers; leave --gpu-layers or --device cpu out".to_owned()))
        }
        DeviceChoice::Cpu if matches!(part, Part::Asked(Placement::AllButExperts(_))) => {
            let what = "a CPU that is alone has all experts; leave --cpu-experts or --device cpu out";
            Err(Error::NoDevice(what.to_owned()))
        }
        DeviceChoice::Cpu => cpu(asked, shape, plan),
        DeviceChoice::Cuda => cuda::executor(asked, &shape, plan),
        DeviceChoice::Wgpu => wgpu::executor(asked, &shape, plan),
    }
}

fn cpu(asked: Asked, shape: Shape<Weight>, plan: Plan) -> Result<Box<dyn Executor>, Error> {
    Ok(Box::new(CpuExecutor::new(shape, plan, kernels(asked)?, asked.threads)?))
}

fn kernels(Asked { isa, rounding, .. }: Asked) -> Result<Kernels, Error> {
    let wanted = isa.unwrap_or_else(Isa::best);
    let kernels = Kernels::new(wanted)
        .ok_or_else(|| Error::NoDevice(format!("this CPU has no {}; use --isa auto", wanted.name())))?;
    Ok(if rounding { kernels.rounding() } else { kernels })
}

/// A model on a GPU that `stage` makes: whole, or what of it the GPU is to have, with the rest on the CPU.
#[cfg_attr(not(any(feature = "cuda", feature = "wgpu")), expect(dead_code, reason = "there is no GPU to share with"))]
fn shared<S: Stage + 'static>(
    asked: Asked,
    shape: &Shape<Weight>,
    plan: Plan,
    stage: impl Fn(&Shape<Weight>, Ends, Plan) -> Result<S, DeviceError>,
) -> Result<Box<dyn Executor>, Error> {
    let (all, with_experts) = (shape.blocks.len() as u32, apart::layers(shape, usize::MAX).count() as u32);
    if matches!(asked.part, Part::Asked(Placement::AllButExperts(_))) && with_experts == 0 {
        (asked.notice)("this model has no experts, so --cpu-experts says nothing");
    }
    let (Part::Asked(mut placement) | Part::Foreseen(mut placement)) = asked.part;
    loop {
        let step = |of: u32| (of / LAYERS_STEP).max(1);
        let (made, less) = match placement {
            Placement::Last(layers) if layers >= all => {
                let whole = stage(shape, Ends::BOTH, plan).map(|whole| -> Box<dyn Executor> { Box::new(whole) });
                (whole.map_err(Error::from), Some(Placement::Last(all.saturating_sub(step(all)))))
            }
            Placement::Last(layers) => {
                let less = layers.saturating_sub(step(all));
                (by_layers(asked, shape, plan, layers as usize, &stage), Some(Placement::Last(less)))
            }
            Placement::AllButExperts(layers) => {
                let layers = layers.min(with_experts);
                let more = (layers + step(with_experts)).min(with_experts);
                let made = without_experts(asked, shape, plan, layers as usize, &stage);
                (made, Some(Placement::AllButExperts(more)).filter(|_| more > layers))
            }
        };
        match (made, less.filter(|less| *less != Placement::Last(0))) {
            (Err(Error::Device(DeviceError::OutOfMemory { .. })), Some(less))
                if matches!(asked.part, Part::Foreseen(_)) =>
            {
                placement = less;
            }
            (made, _) => return made,
        }
    }
}

/// The last so many layers on a GPU, the first on the CPU.
fn by_layers<S: Stage + 'static>(
    asked: Asked,
    shape: &Shape<Weight>,
    plan: Plan,
    layers: usize,
    stage: impl Fn(&Shape<Weight>, Ends, Plan) -> Result<S, DeviceError>,
) -> Result<Box<dyn Executor>, Error> {
    // A device whose layers with a window keep pages sets the others' way of keeping.
    let plan = Plan { ring: None, ..plan };
    let front = shape.blocks.len() - layers;
    let (back, ends) = split::part(shape, front..shape.blocks.len());
    let back = stage(&back, ends, plan)?;
    let (part, ends) = split::part(shape, 0..front);
    let part = CpuExecutor::part(part, ends, plan, kernels(asked)?, asked.threads)?;
    Ok(Box::new(Split::new(shape, vec![(Box::new(part), front), (Box::new(back), layers)])))
}

/// All but the experts of the first so many layers that have some on a GPU, those on the CPU.
fn without_experts<S: Stage + 'static>(
    asked: Asked,
    shape: &Shape<Weight>,
    plan: Plan,
    layers: usize,
    stage: impl Fn(&Shape<Weight>, Ends, Plan) -> Result<S, DeviceError>,
) -> Result<Box<dyn Executor>, Error> {
    if layers == 0 {
        return Ok(Box::new(stage(shape, Ends::BOTH, plan)?));
    }
    let plan = Plan { ring: None, ..plan };
    let (rest, experts) = apart::parts(shape, layers);
    let rest = stage(&rest, Ends::BOTH, plan)?;
    let experts = CpuExecutor::part(experts, Ends::NONE, plan, kernels(asked)?, asked.threads)?;
    Ok(Box::new(Apart::new(shape, Box::new(rest), Box::new(experts), layers)))
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

    /// Bytes a second of its memory, measured.
    pub(super) fn bandwidth_bytes_per_s() -> Option<f64> {
        Some(Device::open().ok()?.ceilings().bandwidth_bytes_per_s).filter(|rate| *rate > 0.0)
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

    pub(super) fn bandwidth_bytes_per_s() -> Option<f64> {
        None
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

/// What a GPU reads a second where that cannot be measured.
const GPU_BYTES_PER_S: f64 = 400e9;
/// What it takes to hand a row to the other device and to have it begin: waiting for a kernel, a copy of some kilobytes, starting the next.
const CROSSING_S: f64 = 40e-6;

/// How fast the devices of this machine read; measured once, about a second, when a choice depends on it.
pub(crate) fn rates(threads: usize) -> Rates {
    static FOUND: OnceLock<Rates> = OnceLock::new();
    *FOUND.get_or_init(|| Rates {
        gpu_bytes_per_s: cuda::bandwidth_bytes_per_s().unwrap_or(GPU_BYTES_PER_S),
        cpu_bytes_per_s: kauri_device_cpu::ceilings(threads).bandwidth_bytes_per_s.max(1.0),
        crossing_s: CROSSING_S,
    })
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
