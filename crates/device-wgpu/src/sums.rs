//! Whether subgroups are what the driver says: they are tried before anything is added up in them.
//!
//! Mesa's driver that computes on the CPU says that its subgroups have 32 threads where `LP_NATIVE_VECTOR_WIDTH` is 1024, and has 16.

use crate::driver::{Dispatch, Failure, Gpu, Words};
use crate::shader::{Entry, Kernel, Lanes};

/// The device with as many lanes as it really adds up over: those that it has, or fewer.
pub(crate) fn proven(mut gpu: Gpu) -> Result<Gpu, Failure> {
    while let Lanes::Subgroup(lanes) = gpu.lanes
        && !adds_up(&gpu, gpu.lanes)?
    {
        gpu.lanes = Lanes::of_subgroup(lanes / 2);
    }
    Ok(gpu)
}

/// Whether sums over such lanes, and over workgroups of them, are what they should be.
fn adds_up(gpu: &Gpu, lanes: Lanes) -> Result<bool, Failure> {
    let threads = lanes.threads() as usize;
    // Whole numbers whose sums have no rounding, different in neighbouring threads.
    let given: Vec<f32> = (0..threads).map(|thread| (1 + 37 * thread % 101) as f32).collect();
    let of_lanes = given.chunks(lanes.count() as usize).flat_map(|lanes| {
        let sum: f32 = lanes.iter().sum();
        lanes.iter().map(move |_| sum)
    });
    let most = given.iter().copied().fold(0.0, f32::max);
    let expected: Vec<f32> = of_lanes.chain(vec![given.iter().sum(); threads]).chain(vec![most; threads]).collect();
    let arena = gpu.buffer("sums", 4 * (given.len() + expected.len()) as u64)?;
    let [read, kept] = ["read", "kept"].map(|name| gpu.buffer(name, 4));
    let (read, kept) = (read?, kept?);
    let bytes: Vec<u8> = given.iter().flat_map(|value| value.to_le_bytes()).collect();
    gpu.write(&arena, 0, &bytes);
    let kernel = Kernel::plain(Entry::Sums);
    gpu.submit(&[Dispatch {
        name: kernel.name(),
        pipeline: gpu.compile(kernel, lanes),
        group: gpu.group([&arena, &read, &read, &read, &read, &read, &kept]),
        words: Words::of([0, threads]),
        grid: [1, 1, 1],
    }]);
    let mut bytes = vec![0; 4 * expected.len()];
    let part = (&arena, 4 * threads as u64, bytes.len() as u64);
    gpu.read(&[part], &mut bytes)?;
    let found = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    Ok(found.eq(expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{Device, Reduction};

    /// Over 4 threads and more, as many as the device has, in registers and by way of memory.
    #[test]
    fn lanes_add_up_in_every_way_that_the_device_has() {
        let Some(device) = device() else { return };
        let Lanes::Subgroup(most) = device.0.lanes else { return eprintln!("no subgroups") };
        let mut lanes = 4;
        while lanes <= 32 {
            assert!(adds_up(&device.0, Lanes::Memory(lanes)).expect("a device"), "{lanes} by way of memory");
            if lanes <= most {
                assert!(adds_up(&device.0, Lanes::Subgroup(lanes)).expect("a device"), "{lanes} in registers");
                println!("{lanes} threads add up in registers");
            }
            lanes *= 2;
        }
    }

    /// More threads than a subgroup has do not add up, and that is found out.
    #[test]
    fn lanes_that_are_not_there_are_found_out() {
        let Some(device) = device() else { return };
        let Lanes::Subgroup(most) = device.0.lanes else { return eprintln!("no subgroups") };
        if most < 32 {
            assert!(!adds_up(&device.0, Lanes::Subgroup(2 * most)).expect("a device"), "twice {most}");
        }
    }

    fn device() -> Option<Device> {
        match Device::open(true, Reduction::Best) {
            Ok(device) => {
                println!("on {}, {}", device.name(), device.reduction());
                Some(device)
            }
            Err(reason) => {
                eprintln!("skipped: {reason}");
                None
            }
        }
    }
}
