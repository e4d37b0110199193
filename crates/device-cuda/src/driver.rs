//! The driver, loaded at run time: a context, memory, kernels and recorded steps behind safe faces. The only module here that calls it.
//!
//! A kernel that is given wrong numbers spoils memory of the device, never the host's: a launch checks the number and the sizes of its
//! arguments against what the kernel declares. What goes wrong on the device comes back as an error of a later call.

mod beside;

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};

pub(crate) use self::beside::{Beside, Gate};
use crate::structure::Structure;

/// What a call of the driver answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} says: {}", text(*.result))]
pub(crate) struct Failure {
    call: &'static str,
    result: CUresult,
}

impl Failure {
    /// Whether there was no room.
    pub(crate) fn is_out_of_memory(self) -> bool {
        self.result == CUresult::CUDA_ERROR_OUT_OF_MEMORY
    }
}

/// Why there is no device to be had.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// Built where there was no compiler for them.
    #[error("this program was built without CUDA kernels")]
    NoKernels,
    /// No library of the driver.
    #[error("there is no NVIDIA driver on this machine")]
    NoDriver,
    /// A driver from before.
    #[error("the NVIDIA driver is too old: it knows CUDA {found}, and {OLDEST_DRIVER} is needed (driver 580 or later)")]
    OldDriver {
        /// Its version.
        found: Version,
    },
    /// No GPU.
    #[error("the NVIDIA driver finds no GPU")]
    NoDevice,
    /// A GPU from before.
    #[error("the {name} is too old: it has compute capability {found}, and 8.0 is needed")]
    OldDevice {
        /// The GPU.
        name: String,
        /// Its version.
        found: Version,
    },
    /// Anything else.
    #[error("the NVIDIA driver does not start: {0}")]
    Other(String),
}

/// Major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i32, pub i32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The oldest driver that takes what the compiler of the kernels makes.
const OLDEST_DRIVER: Version = Version(13, 0);
/// The oldest GPU that kernels are compiled for.
const OLDEST_DEVICE: Version = Version(8, 0);
/// The oldest GPU on which a kernel can wait for the one before it by itself.
pub(crate) const WAITS: Version = Version(9, 0);
/// Dynamic shared memory that a block may have unless a kernel asks for more: of 48 KiB, some may be the kernel's own.
const SHARED_BYTES: u32 = 40 * 1024;
/// Shared memory that kernels have of their own at most, beside what a launch gives them.
const STATIC_BYTES: u32 = 8 * 1024;
/// Arguments of a kernel at most.
const ARGUMENTS_MAX: usize = 24;

/// A GPU, its context, one stream and all kernels.
pub(crate) struct Gpu {
    device: i32,
    context: sys::CUcontext,
    stream: sys::CUstream,
    functions: HashMap<String, Function>,
    modules: Vec<sys::CUmodule>,
    pub(crate) name: String,
    pub(crate) driver: Version,
    pub(crate) processors: u32,
    /// Shared memory that a block may have.
    pub(crate) block_bytes_max: u32,
    pub(crate) capability: Version,
}

// SAFETY: handles of the driver may be used by any thread; who calls makes the context the thread's own (`bind`).
unsafe impl Send for Gpu {}
// SAFETY: the driver locks for itself, and nothing here changes behind a shared reference but through it.
unsafe impl Sync for Gpu {}

struct Function {
    handle: sys::CUfunction,
    sizes: Vec<usize>,
}

/// Something that a kernel is given.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// A place on the device.
    Place(u64),
    /// A whole number.
    Int(i32),
    /// A number.
    Float(f32),
    /// A structure of the kernel's own, of these double words.
    Words(&'a [u64]),
    /// One that was put together field by field.
    Structure(&'a Structure),
}

impl From<u64> for Arg<'_> {
    fn from(place: u64) -> Self {
        Self::Place(place)
    }
}

impl From<i32> for Arg<'_> {
    fn from(number: i32) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for Arg<'_> {
    fn from(number: u32) -> Self {
        Self::Int(number as i32)
    }
}

impl From<usize> for Arg<'_> {
    fn from(number: usize) -> Self {
        Self::Int(i32::try_from(number).expect("a number that kernels count with"))
    }
}

impl From<bool> for Arg<'_> {
    fn from(is: bool) -> Self {
        Self::Int(i32::from(is))
    }
}

impl From<f32> for Arg<'_> {
    fn from(number: f32) -> Self {
        Self::Float(number)
    }
}

impl<'a> From<&'a Structure> for Arg<'a> {
    fn from(structure: &'a Structure) -> Self {
        Self::Structure(structure)
    }
}

impl<'a, const N: usize> From<&'a [u64; N]> for Arg<'a> {
    fn from(words: &'a [u64; N]) -> Self {
        Self::Words(words)
    }
}

/// How many threads a kernel has, and how much shared memory a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) blocks: [usize; 3],
    pub(crate) threads: u32,
    pub(crate) shared_bytes: usize,
    /// Whether the kernel itself waits for the one before it, and may begin ahead of its end.
    pub(crate) ahead: bool,
}

impl Grid {
    pub(crate) fn new(blocks: [usize; 3], threads: u32) -> Self {
        Self { blocks, threads, shared_bytes: 0, ahead: false }
    }
}

/// How a tensor copy turns sixteen-byte pieces of neighbouring rows in shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Swizzle {
    None,
    Bytes64,
    Bytes128,
}

/// Rows of bytes of several matrices, for the copies of Hopper's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BytesMap {
    pub(crate) at: u64,
    pub(crate) row_bytes: usize,
    pub(crate) rows: usize,
    pub(crate) matrices: usize,
    /// Bytes from one matrix to the next.
    pub(crate) stride: u64,
    /// Of a copy.
    pub(crate) box_bytes: usize,
    pub(crate) box_rows: usize,
    pub(crate) swizzle: Swizzle,
}

impl BytesMap {
    /// As the copies want it.
    pub(crate) fn encode(&self) -> Result<[u64; 16], Failure> {
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        let sizes = [self.row_bytes as u64, self.rows as u64, self.matrices as u64];
        let strides = [self.row_bytes as u64, self.stride];
        let (shape, steps) = ([self.box_bytes as u32, self.box_rows as u32, 1], [1u32; 3]);
        let swizzle = match self.swizzle {
            Swizzle::None => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
            Swizzle::Bytes64 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
            Swizzle::Bytes128 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        };
        // SAFETY: the arrays are as long as three dimensions want; writes one map, and touches no memory of the device.
        let made = unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
                3,
                self.at as *mut c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                shape.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        check("cuTensorMapEncodeTiled", made)?;
        Ok(map.opaque)
    }
}

impl Gpu {
    /// The first GPU, with the kernels of these images.
    pub(crate) fn open(images: &[(&str, &[u8])]) -> Result<Self, Unavailable> {
        if images.is_empty() {
            return Err(Unavailable::NoKernels);
        }
        // SAFETY: this only looks for the library; every other call comes after it was found.
        if !unsafe { sys::is_culib_present() } {
            return Err(Unavailable::NoDriver);
        }
        let other = |failure: Failure| Unavailable::Other(failure.to_string());
        let mut version = 0;
        // SAFETY: writes one number.
        check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) }).map_err(other)?;
        let driver = Version(version / 1000, version % 1000 / 10);
        if driver < OLDEST_DRIVER {
            return Err(Unavailable::OldDriver { found: driver });
        }
        // SAFETY: the first call of all.
        let started = unsafe { sys::cuInit(0) };
        let mut count = 0;
        if started != CUresult::CUDA_ERROR_NO_DEVICE {
            check("cuInit", started).map_err(other)?;
            // SAFETY: writes one number.
            check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) }).map_err(other)?;
        }
        if count == 0 {
            return Err(Unavailable::NoDevice);
        }
        let mut gpu = Self::start(driver).map_err(other)?;
        if gpu.capability < OLDEST_DEVICE {
            return Err(Unavailable::OldDevice { name: gpu.name.clone(), found: gpu.capability });
        }
        for (_, image) in images {
            gpu.load(image).map_err(other)?;
        }
        Ok(gpu)
    }

    fn start(driver: Version) -> Result<Self, Failure> {
        let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        let device = 0;
        let mut name = [0u8; 128];
        // SAFETY: each call writes what it is given a place for; the name ends within its array.
        unsafe {
            check("cuDeviceGetName", sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32, device))?;
            check("cuDevicePrimaryCtxRetain", sys::cuDevicePrimaryCtxRetain(&raw mut context, device))?;
            check("cuCtxSetCurrent", sys::cuCtxSetCurrent(context))?;
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            check("cuStreamCreate", sys::cuStreamCreate(&raw mut stream, flags))?;
        }
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: writes one number.
            check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, device) })?;
            Ok(value)
        };
        use sys::CUdevice_attribute_enum as Attribute;
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let processors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let block_bytes_max = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let name =
            CStr::from_bytes_until_nul(&name).map_or_else(|_| String::new(), |name| name.to_string_lossy().into());
        let capability = Version(major, minor);
        let (functions, modules) = (HashMap::new(), Vec::new());
        Ok(Self {
            device,
            context,
            stream,
            functions,
            modules,
            name,
            driver,
            processors: processors as u32,
            block_bytes_max: block_bytes_max as u32,
            capability,
        })
    }

    /// Loads the kernels of an image.
    fn load(&mut self, image: &[u8]) -> Result<(), Failure> {
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is what the compiler made, whole, and says its own length.
        check("cuModuleLoadData", unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) })?;
        self.modules.push(module);
        let mut count = 0;
        // SAFETY: writes one number.
        check("cuModuleGetFunctionCount", unsafe { sys::cuModuleGetFunctionCount(&raw mut count, module) })?;
        let mut handles = vec![std::ptr::null_mut(); count as usize];
        let listed = {
            // SAFETY: the vector has room for as many handles as it says.
            unsafe { sys::cuModuleEnumerateFunctions(handles.as_mut_ptr(), count, module) }
        };
        check("cuModuleEnumerateFunctions", listed)?;
        for handle in handles {
            let mut name = std::ptr::null();
            // SAFETY: the handle is one of the module's; the name is a text that lives as long as the module.
            let name = unsafe {
                check("cuFuncGetName", sys::cuFuncGetName(&raw mut name, handle))?;
                CStr::from_ptr(name).to_string_lossy().into_owned()
            };
            let mut sizes = Vec::new();
            let (mut offset, mut size) = (0, 0);
            // SAFETY: writes two numbers, or refuses an argument past the last.
            while unsafe { sys::cuFuncGetParamInfo(handle, sizes.len(), &raw mut offset, &raw mut size) }
                == CUresult::CUDA_SUCCESS
            {
                sizes.push(size);
            }
            self.functions.insert(name, Function { handle, sizes });
        }
        Ok(())
    }

    /// Has processors give as much as they can of their nearest memory to what blocks share, or as each kernel alone would have it. Between kernels that want
    /// different shares a processor has to run empty: none begins there while another runs.
    pub(crate) fn share(&self, most: bool) -> Result<(), Failure> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
        for function in self.functions.values() {
            // SAFETY: the handle is one of a loaded module.
            let set = unsafe { sys::cuFuncSetAttribute(function.handle, attribute, if most { 100 } else { -1 }) };
            check("cuFuncSetAttribute", set)?;
        }
        Ok(())
    }

    /// Fills a table that some of the images have.
    pub(crate) fn fill(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let name = CString::new(name).expect("a name without a zero");
        for &module in &self.modules {
            let (mut place, mut size) = (0, 0);
            // SAFETY: writes a place and a size, or nothing where the module has no such table.
            let found = unsafe { sys::cuModuleGetGlobal_v2(&raw mut place, &raw mut size, module, name.as_ptr()) };
            if found == CUresult::CUDA_SUCCESS {
                assert_eq!(size, bytes.len(), "the table {name:?}");
                self.write(place, bytes)?;
            }
        }
        Ok(())
    }

    /// Makes the context this thread's.
    pub(crate) fn bind(&self) -> Result<(), Failure> {
        // SAFETY: the context lives as long as this does.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.context) })
    }

    /// Bytes of the device's memory that are free, and all of them.
    pub(crate) fn memory(&self) -> Result<(u64, u64), Failure> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// Memory of the device.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Allocation, Failure> {
        let mut at = 0;
        if bytes > 0 {
            // SAFETY: writes one place.
            check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&raw mut at, bytes) })?;
        }
        Ok(Allocation { gpu: self.clone(), at, bytes })
    }

    /// Memory of the host that the device reads and writes by itself.
    pub(crate) fn pin(self: &Arc<Self>, bytes: usize) -> Result<Pinned, Failure> {
        let mut at = std::ptr::null_mut();
        // SAFETY: writes one pointer, to as many bytes.
        check("cuMemHostAlloc", unsafe { sys::cuMemHostAlloc(&raw mut at, bytes.max(1), 0) })?;
        // SAFETY: those bytes are ours, and any value of a byte is one.
        unsafe { std::ptr::write_bytes(at.cast::<u8>(), 0, bytes) };
        Ok(Pinned { gpu: self.clone(), at: at.cast(), bytes })
    }

    /// Starts a kernel; one without blocks is none.
    pub(crate) fn launch(&self, name: &str, grid: Grid, arguments: &[Arg<'_>]) -> Result<(), Failure> {
        if grid.blocks.contains(&0) {
            return Ok(());
        }
        let function = self.functions.get(name).unwrap_or_else(|| panic!("no kernel is called {name}"));
        assert_eq!(arguments.len(), function.sizes.len(), "arguments of {name}");
        let mut values = [0u64; ARGUMENTS_MAX];
        let mut pointers = [std::ptr::null_mut::<c_void>(); ARGUMENTS_MAX];
        for (index, argument) in arguments.iter().enumerate() {
            let (value, size) = match *argument {
                Arg::Place(place) => (place, 8),
                Arg::Int(number) => (u64::from(number as u32), 4),
                Arg::Float(number) => (u64::from(number.to_bits()), 4),
                Arg::Words(words) => (0, size_of_val(words)),
                Arg::Structure(structure) => (0, structure.len),
            };
            assert_eq!(size, function.sizes[index], "size of argument {index} of {name}");
            values[index] = value;
            pointers[index] = match argument {
                Arg::Words(words) => words.as_ptr().cast_mut().cast(),
                Arg::Structure(structure) => structure.bytes.as_ptr().cast_mut().cast(),
                Arg::Place(_) | Arg::Int(_) | Arg::Float(_) => (&raw mut values[index]).cast(),
            };
        }
        let [x, y, z] = grid.blocks.map(|count| count as u32);
        let shared_bytes = grid.shared_bytes as u32;
        if shared_bytes > SHARED_BYTES {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // The same for every launch of a kernel: of those that were recorded, each has what it needs.
            let most = shared_bytes.max(self.block_bytes_max.saturating_sub(STATIC_BYTES));
            // SAFETY: the handle is one of a loaded module.
            let set = unsafe { sys::cuFuncSetAttribute(function.handle, attribute, most as i32) };
            check("cuFuncSetAttribute", set)?;
        }
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared_bytes,
            hStream: self.stream,
            attrs: &raw mut attribute,
            numAttrs: u32::from(grid.ahead && self.capability >= WAITS),
        };
        let launched = {
            // SAFETY: there is a pointer for each argument that the kernel declares, to as many bytes as it declares; the driver has
            // read them, and the configuration, when it returns.
            unsafe {
                let (pointers, none) = (pointers.as_mut_ptr(), std::ptr::null_mut());
                sys::cuLaunchKernelEx(&raw const config, function.handle, pointers, none)
            }
        };
        check("cuLaunchKernelEx", launched)
    }

    /// A map of rows of bf16 for the copies of Hopper's: boxes of 64 columns by so many rows.
    pub(crate) fn map(at: u64, rows: usize, columns: usize, box_rows: usize) -> Result<[u64; 16], Failure> {
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        let (sizes, stride) = ([columns as u64, rows as u64], [2 * columns as u64]);
        let (shape, steps) = ([64u32, box_rows as u32], [1u32; 2]);
        // SAFETY: the arrays are as long as two dimensions want; writes one map, and touches no memory of the device.
        let made = unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                2,
                at as *mut c_void,
                sizes.as_ptr(),
                stride.as_ptr(),
                shape.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        check("cuTensorMapEncodeTiled", made)?;
        Ok(map.opaque)
    }

    /// Writes bytes to a place, and waits for it.
    pub(crate) fn write(&self, place: u64, bytes: &[u8]) -> Result<(), Failure> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: as many bytes are read; they are ours until the wait is over.
        let copied = unsafe { sys::cuMemcpyHtoDAsync_v2(place, bytes.as_ptr().cast(), bytes.len(), self.stream) };
        check("cuMemcpyHtoDAsync", copied)?;
        self.wait()
    }

    /// Reads bytes from a place, behind everything that was started, and waits for them.
    pub(crate) fn read(&self, place: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        if bytes.is_empty() {
            return self.wait();
        }
        // SAFETY: as many bytes are written; they are ours until the wait is over.
        let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), place, bytes.len(), self.stream) };
        check("cuMemcpyDtoHAsync", copied)?;
        self.wait()
    }

    /// Sends the first bytes of pinned memory to a place. They must stay as they are until a later wait.
    pub(crate) fn send(&self, from: &Pinned, start: usize, bytes: usize, place: u64) -> Result<(), Failure> {
        assert!(start + bytes <= from.bytes, "{bytes} bytes of {}", from.bytes);
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: as many bytes lie there, and pinned memory outlives all work: letting go of it waits.
        let copied = unsafe { sys::cuMemcpyHtoDAsync_v2(place, from.at.add(start).cast(), bytes, self.stream) };
        check("cuMemcpyHtoDAsync", copied)
    }

    /// Reads bytes from a place into pinned memory, and waits for them.
    pub(crate) fn fetch(&self, place: u64, to: &mut Pinned, bytes: usize) -> Result<(), Failure> {
        assert!(bytes <= to.bytes, "{bytes} bytes of {}", to.bytes);
        if bytes > 0 {
            // SAFETY: as many bytes are there, ours until the wait is over.
            let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(to.at.cast(), place, bytes, self.stream) };
            check("cuMemcpyDtoHAsync", copied)?;
        }
        self.wait()
    }

    /// Copies bytes from one place to another.
    pub(crate) fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Failure> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both are places of the device; the host's memory is not touched.
        check("cuMemcpyDtoDAsync", unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream) })
    }

    /// Sets every byte of an allocation.
    pub(crate) fn set(&self, allocation: &Allocation, byte: u8) -> Result<(), Failure> {
        if allocation.bytes == 0 {
            return Ok(());
        }
        // SAFETY: those bytes are the allocation's.
        check("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(allocation.at, byte, allocation.bytes, self.stream) })
    }

    /// Waits until everything that was started is done.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        // SAFETY: the stream lives as long as this does.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    /// Records what `work` starts, for replay.
    pub(crate) fn record<E: From<Failure>>(
        self: &Arc<Self>,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Recording, E> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is ours; the recording ends below.
        check("cuStreamBeginCapture", unsafe { sys::cuStreamBeginCapture_v2(self.stream, mode) })?;
        let worked = work();
        let (mut graph, mut ready) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: ends what was begun; writes one handle.
        let ended = check("cuStreamEndCapture", unsafe { sys::cuStreamEndCapture(self.stream, &raw mut graph) });
        worked?;
        ended?;
        // SAFETY: the graph is whole; writes one handle.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut ready, graph, 0) };
        // SAFETY: what was made of it does not need it.
        check("cuGraphDestroy", unsafe { sys::cuGraphDestroy(graph) })?;
        check("cuGraphInstantiate", made)?;
        Ok(Recording { gpu: self.clone(), ready })
    }

    /// Replays a recording.
    pub(crate) fn replay(&self, recording: &Recording) -> Result<(), Failure> {
        // SAFETY: the recording lives, and so does all memory that it names: they are kept together.
        check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(recording.ready, self.stream) })
    }

    /// Seconds that `work` takes on the device.
    pub(crate) fn time(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
        self.time_behind(|| Ok(()), work)
    }

    /// The same from the end of what `ahead` starts.
    pub(crate) fn time_behind(
        &self,
        ahead: impl FnOnce() -> Result<(), Failure>,
        work: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<f64, Failure> {
        let mut events = [std::ptr::null_mut(); 2];
        for event in &mut events {
            // SAFETY: writes one handle.
            check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut *event, 0) })?;
        }
        ahead()?;
        // SAFETY: the event was made above.
        check("cuEventRecord", unsafe { sys::cuEventRecord(events[0], self.stream) })?;
        work()?;
        // SAFETY: the event was made above.
        check("cuEventRecord", unsafe { sys::cuEventRecord(events[1], self.stream) })?;
        self.wait()?;
        let mut milliseconds = 0.0f32;
        // SAFETY: both were recorded and are over; writes one number.
        let read = unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, events[0], events[1]) };
        for event in events {
            // SAFETY: nothing waits for it any more.
            check("cuEventDestroy", unsafe { sys::cuEventDestroy_v2(event) })?;
        }
        check("cuEventElapsedTime", read)?;
        Ok(f64::from(milliseconds) / 1000.0)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: nobody has the context but through this; what fails here, fails for a device that is lost.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context);
            let _ = sys::cuStreamDestroy_v2(self.stream);
            self.modules.iter().for_each(|&module| {
                let _ = sys::cuModuleUnload(module);
            });
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.device);
        }
    }
}

/// Memory of the device; given back at the end.
pub(crate) struct Allocation {
    gpu: Arc<Gpu>,
    at: u64,
    bytes: usize,
}

impl Allocation {
    /// Where it begins.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// How much it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.bytes > 0 && self.gpu.bind().is_ok() {
            // SAFETY: it was allocated by this context; the call waits for work that uses it.
            let _ = unsafe { sys::cuMemFree_v2(self.at) };
        }
    }
}

/// Memory of the host that the device reads and writes by itself.
pub(crate) struct Pinned {
    gpu: Arc<Gpu>,
    at: *mut u8,
    bytes: usize,
}

// SAFETY: the memory belongs to this alone.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Its bytes, to be set; the device is not reading them.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as many bytes were allocated and set to zero.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Its first numbers; the device is not writing them.
    pub(crate) fn floats(&self, count: usize) -> &[f32] {
        assert!(4 * count <= self.bytes, "{count} numbers of {}", self.bytes / 4);
        // SAFETY: as many bytes were allocated, aligned to a page, and any bits are a number.
        unsafe { std::slice::from_raw_parts(self.at.cast(), count) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() && self.gpu.wait().is_ok() {
            // SAFETY: it was allocated by this context, and nothing is under way.
            let _ = unsafe { sys::cuMemFreeHost(self.at.cast()) };
        }
    }
}

/// A recorded step.
pub(crate) struct Recording {
    gpu: Arc<Gpu>,
    ready: sys::CUgraphExec,
}

// SAFETY: handles of the driver may be used by any thread.
unsafe impl Send for Recording {}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: it was made by this context.
            let _ = unsafe { sys::cuGraphExecDestroy(self.ready) };
        }
    }
}

/// The first failure of several calls that cannot report one.
#[derive(Default)]
pub(crate) struct Outcome(Cell<Option<Failure>>);

impl Outcome {
    /// Keeps it, if it is the first.
    pub(crate) fn note(&self, result: Result<(), Failure>) {
        if let (Err(failure), None) = (result, self.0.get()) {
            self.0.set(Some(failure));
        }
    }

    /// What came of them.
    pub(crate) fn get(&self) -> Result<(), Failure> {
        self.0.get().map_or(Ok(()), Err)
    }
}

/// Words as the device has them, which is this machine's own way.
pub(crate) fn bytes_of_words(words: &[u32]) -> &[u8] {
    // SAFETY: any bits of a word are bytes, as many as its size says.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// Numbers as the device has them, which is this machine's own way.
pub(crate) fn bytes_of_floats(values: &[f32]) -> &[u8] {
    // SAFETY: any bits of a number are bytes, as many as its size says.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn check(call: &'static str, result: CUresult) -> Result<(), Failure> {
    if result == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(Failure { call, result }) }
}

/// The driver's own words.
fn text(result: CUresult) -> String {
    let mut text = std::ptr::null();
    // SAFETY: an error came from the driver, so it is there; it writes a pointer to a text of its own, or nothing.
    let known = unsafe { sys::cuGetErrorString(result, &raw mut text) };
    if known != CUresult::CUDA_SUCCESS || text.is_null() {
        return format!("error {}", result as u32);
    }
    // SAFETY: the text is the driver's and stays.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
