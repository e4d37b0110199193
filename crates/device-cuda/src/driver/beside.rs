//! A second stream: copies to the device beside what the first one works at.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUresult};

use super::{Failure, Gpu, Pinned, check};

/// Copies go here beside what was started, until [`Beside::join`] has what is started later wait for them.
pub(crate) struct Beside {
    gpu: Arc<Gpu>,
    stream: sys::CUstream,
    arrived: sys::CUevent,
}

// SAFETY: handles of the driver may be used by any thread.
unsafe impl Send for Beside {}

impl Beside {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self, Failure> {
        let (mut stream, mut arrived) = (std::ptr::null_mut(), std::ptr::null_mut());
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one handle.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut stream, flags) })?;
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: writes one handle.
        let made = check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut arrived, flags) });
        let beside = Self { gpu: gpu.clone(), stream, arrived };
        made.map(|()| beside)
    }

    /// Sends bytes of pinned memory to a place, which nothing that was started reads. They must stay as they are until a wait behind the next join.
    pub(crate) fn send(&self, from: &Pinned, start: usize, bytes: usize, place: u64) -> Result<(), Failure> {
        assert!(start + bytes <= from.bytes, "{bytes} bytes of {}", from.bytes);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: as many bytes lie there; the first stream waits for this one behind the next join, and this for itself when it goes.
        let copied = unsafe { sys::cuMemcpyHtoDAsync_v2(place, from.at.add(start).cast(), bytes, self.stream) };
        check("cuMemcpyHtoDAsync", copied)
    }

    /// What is started from here on waits for what was sent.
    pub(crate) fn join(&self) -> Result<(), Failure> {
        // SAFETY: the event and both streams live as long as this does.
        check("cuEventRecord", unsafe { sys::cuEventRecord(self.arrived, self.stream) })?;
        // SAFETY: as above.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(self.gpu.stream, self.arrived, 0) })
    }

    /// Reads bytes behind what was sent, and waits for that alone: whether it comes in time.
    pub(crate) fn read(&self, place: u64, to: &mut Pinned, bytes: usize, most: Duration) -> Result<bool, Failure> {
        assert!(bytes <= to.bytes, "{bytes} bytes of {}", to.bytes);
        // SAFETY: as many bytes are there, and pinned memory outlives all work: whoever lets go of it waits for both streams.
        let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(to.at.cast(), place, bytes, self.stream) };
        check("cuMemcpyDtoHAsync", copied)?;
        let start = Instant::now();
        while !is_done(self.stream)? {
            if start.elapsed() > most {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keeps back what is sent from here on until a gate is opened.
    pub(crate) fn hold(&self, gate: &Gate) -> Result<(), Failure> {
        gate.hold(&self.gpu, self.stream)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handles; what fails here, fails for a device that is lost.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.gpu.context);
            let _ = sys::cuStreamSynchronize(self.stream);
            if !self.arrived.is_null() {
                let _ = sys::cuEventDestroy_v2(self.arrived);
            }
            let _ = sys::cuStreamDestroy_v2(self.stream);
        }
    }
}

/// Keeps a stream back, so that the order of things can be seen. Opened at the latest when it goes.
pub(crate) struct Gate(Pinned);

impl Gate {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self, Failure> {
        gpu.pin(4).map(Self)
    }

    /// By a kernel: a stream that waits for a value by itself may hold up the copies of others with it.
    fn hold(&self, gpu: &Gpu, stream: sys::CUstream) -> Result<(), Failure> {
        let mut place = self.0.at as u64;
        let mut arguments = [(&raw mut place).cast()];
        let (kernel, none) = (gpu.functions["hold"].handle, std::ptr::null_mut());
        // SAFETY: the kernel declares one place. Pinned memory has one address for host and device, and this is there until the stream has gone on.
        let launched =
            unsafe { sys::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments.as_mut_ptr(), none) };
        check("cuLaunchKernel", launched)
    }

    pub(crate) fn open(&mut self) {
        // SAFETY: the byte is there, the first of a word; the device only reads it.
        unsafe { self.0.at.write_volatile(1) };
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl Gpu {
    /// Keeps back what is started from here on until a gate is opened.
    pub(crate) fn hold(&self, gate: &Gate) -> Result<(), Failure> {
        gate.hold(self, self.stream)
    }

    /// Has kernels loaded, which the driver else does with the first launch of each: behind all that is under way, and copies beside it wait, too. What cannot
    /// be loaded now says so then.
    pub(crate) fn ready(&self, kernels: &[&str]) {
        for name in kernels {
            // SAFETY: the handle is one of a loaded module.
            let _ = unsafe { sys::cuFuncLoad(self.functions[*name].handle) };
        }
    }

    /// Whether everything that was started is done.
    pub(crate) fn is_idle(&self) -> Result<bool, Failure> {
        is_done(self.stream)
    }
}

fn is_done(stream: sys::CUstream) -> Result<bool, Failure> {
    // SAFETY: whoever asks has the stream.
    match unsafe { sys::cuStreamQuery(stream) } {
        CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        result => check("cuStreamQuery", result).map(|()| true),
    }
}
