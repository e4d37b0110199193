//! The devices there are, and the executor for the one that was chosen. The only file that knows which are built in.

use kauri_arch::Shape;
use kauri_device::{CacheType, Executor, Plan, Weight};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels, Topology};
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
    /// Any GPU through Metal, Vulkan or DX12.
    Wgpu,
}

/// A model on the chosen device.
pub(crate) fn executor(
    choice: DeviceChoice,
    isa: Option<Isa>,
    threads: usize,
    shape: Shape<Weight>,
    plan: Plan,
) -> Result<Box<dyn Executor>, Error> {
    match choice {
        DeviceChoice::Auto | DeviceChoice::Cpu => {
            let wanted = isa.unwrap_or_else(Isa::best);
            let kernels = Kernels::new(wanted)
                .ok_or_else(|| Error::NoDevice(format!("this CPU has no {}; use --isa auto", wanted.name())))?;
            Ok(Box::new(CpuExecutor::new(shape, plan, kernels, threads)?))
        }
        DeviceChoice::Cuda => Err(Error::NoDevice("this build has no CUDA device; use --device cpu".to_owned())),
        DeviceChoice::Wgpu => Err(Error::NoDevice("this build has no wgpu device; use --device cpu".to_owned())),
    }
}

/// How keys and values are best kept: as bytes where products take activations as bytes, which costs as little and runs as much
/// faster; in half precision where the model or the instruction set computes in more.
pub(crate) fn cache(isa: Option<Isa>, shape: &Shape<Weight>) -> CacheType {
    let mut bytes = false;
    shape.for_each(|weight| match weight {
        Weight::Matrix(matrix) => bytes |= !matches!(matrix.quant, Quant::F32 | Quant::F16 | Quant::BF16),
        Weight::Vector(_) => {}
    });
    if bytes && isa.unwrap_or_else(Isa::best) != Isa::Scalar { CacheType::Q8_0 } else { CacheType::F16 }
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
