//! The only calls of wgpu: buffers, pipelines, one compute pass for all work of a step.
//!
//! Every kernel has the same bindings and takes its arguments as immediates, so that work is data: a pipeline, a bind group, some words
//! and a grid. Nothing here knows what a kernel computes. The only file of this crate that may use `unsafe`.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::shader::{Kernel, Lanes, Unit};

/// Words of arguments that a kernel has at most: what Vulkan promises at least.
pub(crate) const WORDS_MAX: usize = 32;
/// Bindings of every kernel: the arena, three matrices, vectors, the step, what a block keeps.
pub(crate) const BINDINGS: usize = 7;
/// Bytes that are handed over in one go when weights are copied.
pub(crate) const PIECE_BYTES: usize = 32 << 20;

/// Why something could not be done.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The device has no room for it, or a binding cannot be so large.
    #[error("out of memory")]
    OutOfMemory,
    /// What the driver said.
    #[error("{0}")]
    Driver(String),
}

/// A device with its queue and what was compiled for it.
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) info: wgpu::AdapterInfo,
    pub(crate) lanes: Lanes,
    /// What products of many rows are computed in, if there is some.
    pub(crate) unit: Option<Unit>,
    /// Bytes that a binding has at most.
    pub(crate) binding_bytes_max: u64,
    /// Whether its memory is the CPU's, so that weights are written where they stay.
    shares_memory: bool,
    layout: wgpu::BindGroupLayout,
    pipeline_layout: wgpu::PipelineLayout,
    pipelines: Mutex<HashMap<Kernel, wgpu::ComputePipeline>>,
    staging: Mutex<Option<wgpu::Buffer>>,
    failed: Arc<Mutex<Option<String>>>,
}

/// Some work: what runs, on which buffers, with which words, how often.
#[derive(Clone)]
pub(crate) struct Dispatch {
    pub(crate) name: &'static str,
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) group: wgpu::BindGroup,
    pub(crate) words: Words,
    pub(crate) grid: [u32; 3],
}

/// Arguments of a kernel, in the order of its `Args`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Words {
    words: [u32; WORDS_MAX],
    count: usize,
}

impl Words {
    /// Whole numbers.
    pub(crate) fn of<const N: usize>(numbers: [usize; N]) -> Self {
        numbers.into_iter().fold(Self::default(), Self::int)
    }

    /// Another whole number.
    pub(crate) fn int(mut self, number: usize) -> Self {
        self.words[self.count] = number as u32;
        self.count += 1;
        self
    }

    /// Another number.
    pub(crate) fn float(self, number: f32) -> Self {
        self.int(number.to_bits() as usize)
    }

    fn bytes(&self) -> [u8; 4 * WORDS_MAX] {
        let mut bytes = [0; 4 * WORDS_MAX];
        bytes.as_chunks_mut().0.iter_mut().zip(self.words).for_each(|(to, word)| *to = word.to_le_bytes());
        bytes
    }
}

impl Gpu {
    /// Makes an adapter ready.
    #[expect(unsafe_code, reason = "matrix units are an experiment of wgpu's")]
    pub(crate) fn open(
        adapter: &wgpu::Adapter,
        lanes: Lanes,
        unit: Option<Unit>,
        binding_bytes_max: u64,
    ) -> Result<Self, Failure> {
        let mut limits = adapter.limits();
        limits.max_storage_buffer_binding_size = limits.max_storage_buffer_binding_size.min(binding_bytes_max);
        let mut features = wgpu::Features::IMMEDIATES;
        if let Lanes::Subgroup(_) = lanes {
            features |= wgpu::Features::SUBGROUP;
        }
        let shares_memory = shares_memory(adapter);
        features.set(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS, shares_memory);
        let mut experimental_features = wgpu::ExperimentalFeatures::disabled();
        if unit.is_some() {
            features |= wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX | wgpu::Features::SHADER_F16;
            // SAFETY: what is asked for is that bugs of such features are known to be possible, and reported. The only one that is asked
            // for is used by one kernel, `shaders/product_units.wgsl`: all its loads and stores of matrices lie in arrays of the
            // workgroup whose sizes its text has, in control flow that is the same for all threads, as `api-specs` wants it.
            experimental_features = unsafe { wgpu::ExperimentalFeatures::enabled() };
        }
        let descriptor = wgpu::DeviceDescriptor {
            label: None,
            required_features: features,
            experimental_features,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::Performance,
            ..wgpu::DeviceDescriptor::default()
        };
        let asked = ready(adapter.request_device(&descriptor));
        let (device, queue) = asked.map_err(|error| Failure::Driver(error.to_string()))?;
        let failed = Arc::new(Mutex::new(None));
        let noted = failed.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| note(&noted, error.to_string())));
        let noted = failed.clone();
        device.set_device_lost_callback(move |reason, message| note(&noted, format!("{reason:?}: {message}")));
        let entries: Vec<_> = (0..BINDINGS as u32).map(layout_entry).collect();
        let layout = device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: Some("kernels"), entries: &entries });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("kernels"),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 4 * WORDS_MAX as u32,
        });
        Ok(Self {
            info: adapter.get_info(),
            lanes,
            unit,
            shares_memory,
            binding_bytes_max: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
            layout,
            pipeline_layout,
            pipelines: Mutex::default(),
            staging: Mutex::default(),
            failed,
            device,
            queue,
        })
    }

    /// What went wrong so far, if anything did: every later call fails too.
    pub(crate) fn outcome(&self) -> Result<(), Failure> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().map_or(Ok(()), |reason| Err(Failure::Driver(reason.clone())))
    }

    /// A buffer of so many bytes that kernels work on; all zeros.
    pub(crate) fn buffer(&self, label: &str, bytes: u64) -> Result<wgpu::Buffer, Failure> {
        let size = bytes.max(16).next_multiple_of(4);
        if size > self.binding_bytes_max {
            return Err(Failure::OutOfMemory);
        }
        use wgpu::BufferUsages as Usage;
        let usage = Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC;
        self.make(&wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false })
    }

    /// A buffer for weights, for [`Self::fill`] until it is [`filled`]; all zeros. Where memory is shared the CPU writes them into it:
    /// nothing stands between the file and where they stay.
    pub(crate) fn weights(&self, bytes: u64) -> Result<wgpu::Buffer, Failure> {
        let label = "weights";
        let size = bytes.max(16).next_multiple_of(8);
        if self.shares_memory && size <= self.binding_bytes_max {
            use wgpu::BufferUsages as Usage;
            let usage = Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST | Usage::MAP_WRITE;
            let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: true };
            // A driver that has no room for it where both can write may have some elsewhere.
            if let Ok(buffer) = self.make(&descriptor) {
                return Ok(buffer);
            }
        }
        self.buffer(label, bytes)
    }

    /// Writes bytes into a buffer of [`Self::weights`], from a multiple of eight on. Behind them, up to the next multiple of four, are zeros.
    pub(crate) fn fill(&self, buffer: &wgpu::Buffer, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if !buffer.usage().contains(wgpu::BufferUsages::MAP_WRITE) {
            return self.write(buffer, at, bytes);
        }
        match buffer.get_mapped_range_mut(at..at + bytes.len().next_multiple_of(4) as u64) {
            Ok(mut view) => view.slice(..bytes.len()).copy_from_slice(bytes),
            Err(error) => note(&self.failed, error.to_string()),
        }
    }

    /// Waits until what was written has arrived, so that it is nowhere else any more.
    pub(crate) fn arrive(&self) {
        self.queue.submit([]);
        self.wait();
    }

    fn make(&self, descriptor: &wgpu::BufferDescriptor<'_>) -> Result<wgpu::Buffer, Failure> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(descriptor);
        match ready(scope.pop()) {
            None => Ok(buffer),
            Some(_) => Err(Failure::OutOfMemory),
        }
    }

    /// The pipeline of a kernel, compiled where it was not wanted before.
    pub(crate) fn pipeline(&self, kernel: Kernel) -> wgpu::ComputePipeline {
        let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        pipelines.entry(kernel).or_insert_with(|| self.compile(kernel, self.lanes)).clone()
    }

    /// The pipeline of a kernel for such lanes.
    #[expect(unsafe_code, reason = "that loops end is a promise")]
    pub(crate) fn compile(&self, kernel: Kernel, lanes: Lanes) -> wgpu::ComputePipeline {
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(kernel.name()),
            source: wgpu::ShaderSource::Wgsl(kernel.source(lanes).into()),
        };
        let mut checks = wgpu::ShaderRuntimeChecks::checked();
        checks.force_loop_bounding = false;
        // SAFETY: the one check that is left out is that of endless loops, and there are none: the text is one of this crate's, whose loops
        // are all `for` loops that count or double up to, or halve down to, a number that they do not change. All accesses stay checked.
        let module = unsafe { self.device.create_shader_module_trusted(descriptor, checks) };
        let options = wgpu::PipelineCompilationOptions {
            zero_initialize_workgroup_memory: false,
            ..wgpu::PipelineCompilationOptions::default()
        };
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(kernel.name()),
            layout: Some(&self.pipeline_layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: options,
            cache: None,
        })
    }

    /// The buffers of a kernel, in the order of its bindings.
    pub(crate) fn group(&self, buffers: [&wgpu::Buffer; BINDINGS]) -> wgpu::BindGroup {
        let entries: Vec<_> = (0..)
            .zip(buffers)
            .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
            .collect();
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.layout,
            entries: &entries,
        })
    }

    /// Starts all of some work, in order, as one pass.
    pub(crate) fn submit(&self, work: &[Dispatch]) {
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for Dispatch { pipeline, group, words, grid: [x, y, z], .. } in work {
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, group, &[]);
            pass.set_immediates(0, &words.bytes()[..4 * words.count]);
            pass.dispatch_workgroups(*x, *y, *z);
        }
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }

    /// Writes bytes, a multiple of four or padded to one with zeros, ahead of what is started next.
    pub(crate) fn write(&self, buffer: &wgpu::Buffer, at: u64, bytes: &[u8]) {
        let whole = bytes.len() / 4 * 4;
        for (piece, start) in bytes[..whole].chunks(PIECE_BYTES).zip((0u64..).step_by(PIECE_BYTES)) {
            self.queue.write_buffer(buffer, at + start, piece);
            if piece.len() == PIECE_BYTES {
                // What was handed over is let go of before more is.
                self.arrive();
            }
        }
        if whole < bytes.len() {
            let mut rest = [0; 4];
            rest[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.queue.write_buffer(buffer, at + whole as u64, &rest);
        }
    }

    /// Reads parts of buffers behind what was started, one after the other: each so many bytes, a multiple of four.
    pub(crate) fn read(&self, parts: &[(&wgpu::Buffer, u64, u64)], to: &mut [u8]) -> Result<(), Failure> {
        self.outcome()?;
        let bytes: u64 = parts.iter().map(|(_, _, bytes)| bytes).sum();
        if bytes == 0 {
            return Ok(());
        }
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        if staging.as_ref().is_none_or(|staging| staging.size() < bytes) {
            let (size, usage) = (bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
            let label = Some("read");
            *staging = Some(self.make(&wgpu::BufferDescriptor { label, size, usage, mapped_at_creation: false })?);
        }
        let staging = staging.as_ref().expect("made above");
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut start = 0;
        for &(buffer, at, bytes) in parts.iter().filter(|(_, _, bytes)| *bytes > 0) {
            encoder.copy_buffer_to_buffer(buffer, at, staging, start, bytes);
            start += bytes;
        }
        self.queue.submit([encoder.finish()]);
        staging.map_async(wgpu::MapMode::Read, ..bytes, |_| {});
        self.wait();
        self.outcome()?;
        let mapped = staging.get_mapped_range(..bytes).map_err(|error| Failure::Driver(error.to_string()))?;
        to.copy_from_slice(&mapped[..to.len()]);
        drop(mapped);
        staging.unmap();
        Ok(())
    }

    /// Copies a part of a buffer to another place, behind what was started.
    pub(crate) fn copy(&self, copies: &[(&wgpu::Buffer, u64, u64, u64)]) {
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for &(buffer, from, to, bytes) in copies.iter().filter(|(_, from, to, bytes)| *bytes > 0 && from != to) {
            // A buffer is not copied onto itself directly.
            let descriptor = wgpu::BufferDescriptor {
                label: Some("copy"),
                size: bytes,
                usage: wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            };
            let between = self.device.create_buffer(&descriptor);
            encoder.copy_buffer_to_buffer(buffer, from, &between, 0, bytes);
            encoder.copy_buffer_to_buffer(&between, 0, buffer, to, bytes);
        }
        self.queue.submit([encoder.finish()]);
    }

    /// Waits until everything that was started is done.
    pub(crate) fn wait(&self) {
        if let Err(error) = self.device.poll(wgpu::PollType::wait_indefinitely()) {
            note(&self.failed, error.to_string());
        }
    }
}

/// Nothing more is filled into a buffer of [`Gpu::weights`]: from now on kernels read it.
pub(crate) fn filled(buffer: &wgpu::Buffer) {
    if buffer.usage().contains(wgpu::BufferUsages::MAP_WRITE) {
        buffer.unmap();
    }
}

/// Whether the CPU can write where kernels of this adapter read, at no cost to them.
fn shares_memory(adapter: &wgpu::Adapter) -> bool {
    let is_one = match adapter.get_info().device_type {
        wgpu::DeviceType::IntegratedGpu | wgpu::DeviceType::Cpu => true,
        wgpu::DeviceType::DiscreteGpu | wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => false,
    };
    is_one && adapter.features().contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS)
}

fn layout_entry(binding: u32) -> wgpu::BindGroupLayoutEntry {
    let read_only = ![0, BINDINGS as u32 - 1].contains(&binding);
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    }
}

/// Keeps the first thing that went wrong: the others follow from it.
fn note(failed: &Mutex<Option<String>>, reason: String) {
    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
}

/// What a future gives that the native backends answer at once.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{Device, Reduction, lost};

    /// A device that went away says so at every later call, and nothing panics.
    #[test]
    fn a_lost_device_is_said_to_be_lost() {
        let Ok(Device(gpu)) = Device::open(true, Reduction::Best) else { return eprintln!("skipped: no device") };
        let buffer = gpu.buffer("some", 64).expect("room");
        gpu.write(&buffer, 0, &[1; 64]);
        gpu.read(&[(&buffer, 0, 64)], &mut [0; 64]).expect("a device that is there");
        gpu.device.destroy();
        for _ in 0..2 {
            gpu.write(&buffer, 0, &[1; 64]);
            let failure = gpu.read(&[(&buffer, 0, 64)], &mut [0; 64]).expect_err("it is gone");
            let said = lost(failure).to_string();
            assert!(said.starts_with("the GPU was lost: ") && said.len() > 20, "{said}");
        }
    }

    /// Weights arrive whole in either way: written where they stay, or by way of another buffer, as GPUs with memory of their own have it.
    #[test]
    fn weights_are_what_was_filled_in() {
        let Ok(Device(gpu)) = Device::open(true, Reduction::Best) else { return eprintln!("skipped: no device") };
        let mut gpu = Arc::into_inner(gpu).expect("opened here");
        let bytes: Vec<u8> = (0..PIECE_BYTES + 1003).map(|place| (place * 7 % 253) as u8).collect();
        for shares_memory in [gpu.shares_memory, false] {
            gpu.shares_memory = shares_memory;
            let buffer = gpu.weights(bytes.len() as u64 + 264).expect("room");
            assert_eq!(buffer.usage().contains(wgpu::BufferUsages::MAP_WRITE), shares_memory);
            gpu.fill(&buffer, 256, &bytes);
            gpu.fill(&buffer, 8, &[]);
            gpu.fill(&buffer, 0, &[1, 2, 3]);
            filled(&buffer);
            gpu.arrive();
            let mut read = vec![9; 256 + bytes.len().next_multiple_of(4)];
            let all = read.len() as u64;
            gpu.read(&[(&buffer, 0, all)], &mut read).expect("a device that is there");
            assert!(read[..4] == [1, 2, 3, 0] && read[4..256].iter().all(|byte| *byte == 0));
            assert!(read[256..][..bytes.len()] == bytes && read[256 + bytes.len()..] == [0]);
        }
    }

    /// More than the device allows in one piece is refused as too much, and what is asked for next is not.
    #[test]
    fn too_much_in_one_piece_is_out_of_memory() {
        let Ok(Device(gpu)) = Device::open_within(true, Reduction::Best, 1 << 20) else {
            return eprintln!("skipped: no device");
        };
        assert!(matches!(gpu.buffer("much", (1 << 20) + 4), Err(Failure::OutOfMemory)));
        assert!(gpu.buffer("some", 1 << 20).is_ok() && gpu.outcome().is_ok());
    }
}
