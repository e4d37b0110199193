//! The devices there are, and the executor for the one that was chosen. The only file that knows which are built in.

use kauri_arch::Shape;
use kauri_device::{Executor, Plan, Weight};
use kauri_device_cpu::CpuExecutor;

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

/// The CPU instructions to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isa {
    /// The best that the CPU has and kauri has kernels for.
    #[default]
    Auto,
    /// None beyond the compiler's own.
    Scalar,
}

/// A model on the chosen device.
pub(crate) fn executor(
    choice: DeviceChoice,
    _isa: Isa,
    threads: usize,
    shape: Shape<Weight>,
    plan: Plan,
) -> Result<Box<dyn Executor>, Error> {
    match choice {
        DeviceChoice::Auto | DeviceChoice::Cpu => Ok(Box::new(CpuExecutor::new(shape, plan, threads))),
        DeviceChoice::Cuda => Err(Error::NoDevice("this build has no CUDA device; use --device cpu".to_owned())),
        DeviceChoice::Wgpu => Err(Error::NoDevice("this build has no wgpu device; use --device cpu".to_owned())),
    }
}

/// The cores of this machine that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
