//! Which adapters there are, and the one that models run on.

use std::sync::Arc;

use kauri_device::DeviceError;

use crate::driver::{Failure, Gpu, WORDS_MAX, ready};
use crate::matmul::WIDE_FROM;
use crate::shader::{Lanes, Unit};
use crate::{sums, units};

/// A GPU that is ready to hold models.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<Gpu>);

/// Why there is none.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unavailable {
    /// No driver, or none with a GPU.
    #[error("no GPU was found: there is no Vulkan or Metal driver with one")]
    NoAdapter,
    /// The GPU cannot do what kernels need.
    #[error("{name} cannot be used: it has no {lack}")]
    Lacks {
        /// The adapter.
        name: String,
        /// What it lacks.
        lack: &'static str,
    },
    /// What the driver said.
    #[error("{name} cannot be used: {reason}")]
    Other {
        /// The adapter.
        name: String,
        /// What is known.
        reason: String,
    },
}

/// An adapter that was found, in words and numbers.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Its name, the interface and the driver.
    pub name: String,
    /// Whether it is a program that computes on the CPU.
    pub is_software: bool,
    /// Bytes of a matrix, or of a layer's cache, at most in one piece.
    pub binding_bytes_max: u64,
    /// The smallest and the largest subgroup; zeros where there are none.
    pub subgroup: [u32; 2],
    /// Whether shaders have numbers of half precision.
    pub has_f16: bool,
    /// Whether there are matrix units that can be used.
    pub has_matrix_units: bool,
    /// What it lacks to be used, if anything.
    pub lacks: Option<&'static str>,
}

/// How threads of a workgroup add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// In registers where the adapter has subgroups of a size that is known, else by way of memory; and in matrix units for many rows,
    /// where it has some. Those of a driver that computes on the CPU are left alone: they took four times as long as none.
    Best,
    /// The same with any matrix units that there are, from few rows on: to try them.
    Units,
    /// The same without.
    Single,
    /// By way of memory, over so many neighbouring threads: what devices without subgroups do. Kernels are then the same as with
    /// subgroups of that size, but for how lanes add up.
    Memory(u32),
}

/// All adapters of this machine, the best first.
pub fn adapters() -> Vec<Adapter> {
    found().iter().map(describe).collect()
}

impl Device {
    /// The best GPU of this machine.
    ///
    /// # Errors
    /// When there is none that can be used; one that computes on the CPU counts only where `software` is wanted.
    pub fn open(software: bool, reduction: Reduction) -> Result<Self, Unavailable> {
        Self::open_within(software, reduction, u64::MAX)
    }

    /// The same with no more than so many bytes of a matrix, or of anything else, in one piece: as drivers have it that allow less.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_within(software: bool, reduction: Reduction, binding_bytes_max: u64) -> Result<Self, Unavailable> {
        let found = found();
        let adapter = found
            .iter()
            .find(|adapter| software || adapter.get_info().device_type != wgpu::DeviceType::Cpu)
            .ok_or(Unavailable::NoAdapter)?;
        let Adapter { name, subgroup: [least, _], lacks, .. } = describe(adapter);
        if let Some(lack) = lacks {
            return Err(Unavailable::Lacks { name, lack });
        }
        let lanes = match reduction {
            Reduction::Best | Reduction::Units | Reduction::Single
                if adapter.features().contains(wgpu::Features::SUBGROUP) =>
            {
                Lanes::of_subgroup(least)
            }
            Reduction::Best | Reduction::Units | Reduction::Single => Lanes::WITHOUT_SUBGROUPS,
            Reduction::Memory(lanes) => Lanes::of_memory(lanes),
        };
        let unit = unit(adapter).and_then(|unit| match reduction {
            Reduction::Best => Some(unit).filter(|_| adapter.get_info().device_type != wgpu::DeviceType::Cpu),
            Reduction::Units => Some(Unit { rows_min: WIDE_FROM as u32, ..unit }),
            Reduction::Single | Reduction::Memory(_) => None,
        });
        let opened = Gpu::open(adapter, lanes, unit, binding_bytes_max).and_then(sums::proven).and_then(units::proven);
        let gpu = opened.map_err(|failure| Unavailable::Other { name, reason: failure.to_string() })?;
        Ok(Self(Arc::new(gpu)))
    }

    /// The device in words, for people.
    pub fn name(&self) -> String {
        name_of(&self.0.info)
    }

    /// Whether it is a program that computes on the CPU.
    pub fn is_software(&self) -> bool {
        self.0.info.device_type == wgpu::DeviceType::Cpu
    }

    /// Whether products of many rows are rounded to half precision, in matrix units.
    pub fn has_matrix_units(&self) -> bool {
        self.0.unit.is_some()
    }

    /// What subgroups and matrix units were taken for, in words.
    pub fn reduction(&self) -> String {
        let sums = match self.0.lanes {
            Lanes::Memory(lanes) => format!("sums over {lanes} threads by way of memory"),
            Lanes::Subgroup(lanes) => format!("sums over {lanes} threads in registers"),
        };
        match self.0.unit {
            Some(Unit { size, .. }) => format!("{sums}, matrix units of {size} by {size}"),
            None => sums,
        }
    }
}

fn found() -> Vec<wgpu::Adapter> {
    let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL;
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends,
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let mut found = ready(instance.enumerate_adapters(backends));
    found.sort_by_key(|adapter| rank(adapter.get_info().device_type));
    found
}

/// Those with memory of their own come first, those that compute on the CPU last.
fn rank(kind: wgpu::DeviceType) -> u8 {
    match kind {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

fn describe(adapter: &wgpu::Adapter) -> Adapter {
    let (info, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
    let has_subgroups = features.contains(wgpu::Features::SUBGROUP);
    let has_immediates =
        features.contains(wgpu::Features::IMMEDIATES) && limits.max_immediate_size as usize >= 4 * WORDS_MAX;
    let lacks = if !has_immediates {
        Some("room for arguments of kernels (immediates)")
    } else if limits.max_storage_buffers_per_shader_stage < crate::driver::BINDINGS as u32 {
        Some("room for seven buffers in a kernel")
    } else if limits.max_compute_invocations_per_workgroup < 256 {
        Some("room for 256 threads in a workgroup")
    } else {
        None
    };
    Adapter {
        name: name_of(&info),
        is_software: info.device_type == wgpu::DeviceType::Cpu,
        binding_bytes_max: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
        subgroup: if has_subgroups { [info.subgroup_min_size, info.subgroup_max_size] } else { [0; 2] },
        has_f16: features.contains(wgpu::Features::SHADER_F16),
        has_matrix_units: unit(adapter).is_some(),
        lacks,
    }
}

/// The matrix units that there is a kernel for: halves, of 8 by 8 or of 16 by 16, added up in single precision by a subgroup.
fn unit(adapter: &wgpu::Adapter) -> Option<Unit> {
    use wgpu::CooperativeScalarType::{F16, F32};
    let (info, features) = (adapter.get_info(), adapter.features());
    let wanted =
        wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX | wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP;
    let all = adapter.cooperative_matrix_properties();
    let size = [8, 16].into_iter().find(|&size| {
        all.iter().any(|it| [it.m_size, it.n_size, it.k_size] == [size; 3] && (it.ab_type, it.cr_type) == (F16, F32))
    })?;
    // Four subgroups; where drivers choose their size, as many threads as four of the usual size have.
    let lanes = if info.subgroup_min_size == info.subgroup_max_size { info.subgroup_min_size } else { 32 };
    let threads = (4 * lanes).min(adapter.limits().max_compute_invocations_per_workgroup);
    // On an H200 units of 16 took longer than tiles for 64 rows, and half as long for 512.
    features.contains(wanted).then_some(Unit { size, threads, rows_min: size * size })
}

fn name_of(info: &wgpu::AdapterInfo) -> String {
    let backend = match info.backend {
        wgpu::Backend::Vulkan => "Vulkan",
        wgpu::Backend::Metal => "Metal",
        wgpu::Backend::Dx12 | wgpu::Backend::Gl | wgpu::Backend::BrowserWebGpu | wgpu::Backend::Noop => {
            "another interface"
        }
    };
    let driver = format!("{} {}", info.driver, info.driver_info);
    match driver.trim() {
        "" => format!("{}, {backend}", info.name),
        driver => format!("{}, {backend}, {driver}", info.name),
    }
}

/// The name of this device in errors.
pub(crate) const DEVICE: &str = "GPU";

/// What became of work on the device.
pub(crate) fn lost(failure: Failure) -> DeviceError {
    let reason = match failure {
        Failure::OutOfMemory => "it ran out of memory".to_owned(),
        Failure::Driver(reason) => reason,
    };
    DeviceError::Lost { device: DEVICE, reason }
}

/// What became of asking for memory.
pub(crate) fn no_room(what: &'static str, bytes: u64) -> impl Fn(Failure) -> DeviceError {
    move |failure| match failure {
        Failure::OutOfMemory => DeviceError::OutOfMemory { device: DEVICE, what, bytes },
        Failure::Driver(_) => lost(failure),
    }
}
