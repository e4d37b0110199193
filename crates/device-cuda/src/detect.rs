//! Which GPU there is, with the kernels that were built in.

use std::sync::Arc;

use kauri_device::{Ceilings, DeviceError};
use kauri_formats::quant::grids;

use crate::ceilings;
use crate::driver::{Failure, Gpu, Unavailable};

include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// A GPU that is ready to hold models.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<Gpu>);

impl Device {
    /// The first GPU of this machine.
    ///
    /// # Errors
    /// When there is none, or its driver cannot be used.
    pub fn open() -> Result<Self, Unavailable> {
        let gpu = Gpu::open(IMAGES)?;
        fill_books(&gpu).map_err(|failure| Unavailable::Other(failure.to_string()))?;
        Ok(Self(Arc::new(gpu)))
    }

    /// The device in words, for people.
    pub fn name(&self) -> String {
        format!("{}, CUDA {}", self.0.name, self.0.driver)
    }
}

impl Device {
    /// Bytes of its memory that are free, and all of them.
    ///
    /// # Errors
    /// When the driver does not say.
    pub fn memory(&self) -> Result<(u64, u64), DeviceError> {
        self.0.memory().map_err(lost)
    }

    /// What it allows at most, measured.
    pub fn ceilings(&self) -> Ceilings {
        ceilings::measure(&self.0)
    }
}

/// Brings the code books, which `kauri-formats` has, to every image that uses them.
fn fill_books(gpu: &Gpu) -> Result<(), Failure> {
    fn bytes<const N: usize>(points: &[[i8; N]]) -> Vec<u8> {
        points.as_flattened().iter().map(|&level| level as u8).collect()
    }
    gpu.fill("book_iq1", &bytes(&grids::iq1::POINTS))?;
    gpu.fill("book_iq2_s", &bytes(&grids::iq2_s::POINTS))?;
    gpu.fill("book_iq2_xs", &bytes(&grids::iq2_xs::POINTS))?;
    gpu.fill("book_iq2_xxs", &bytes(&grids::iq2_xxs::POINTS))?;
    gpu.fill("book_iq3_s", &bytes(&grids::iq3_s::POINTS))?;
    gpu.fill("book_iq3_xxs", &bytes(&grids::iq3_xxs::POINTS))
}

/// The name of this device in errors.
pub(crate) const DEVICE: &str = "NVIDIA GPU";

/// What became of work on the device.
pub(crate) fn lost(failure: Failure) -> DeviceError {
    DeviceError::Lost { device: DEVICE, reason: failure.to_string() }
}

/// What became of asking for memory.
pub(crate) fn no_room(what: &'static str, bytes: u64) -> impl Fn(Failure) -> DeviceError {
    move |failure| {
        if failure.is_out_of_memory() {
            DeviceError::OutOfMemory { device: DEVICE, what, bytes }
        } else {
            lost(failure)
        }
    }
}
