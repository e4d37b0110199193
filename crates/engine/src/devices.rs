//! The devices there are, and the executor for the one that was chosen. The only file that knows which are built in.

use kauri_arch::Shape;
use kauri_device::{Executor, Plan, Weight};
use kauri_device_cpu::{CpuExecutor, Isa, Kernels};

use crate::error::Error;

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
            Ok(Box::new(CpuExecutor::new(shape, plan, kernels, threads)))
        }
        DeviceChoice::Cuda => Err(Error::NoDevice("this build has no CUDA device; use --device cpu".to_owned())),
        DeviceChoice::Wgpu => Err(Error::NoDevice("this build has no wgpu device; use --device cpu".to_owned())),
    }
}

/// Whether this CPU has vector instructions that kauri has kernels for.
pub fn has_simd() -> bool {
    Isa::best() != Isa::Scalar
}

/// The cores of this machine that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
