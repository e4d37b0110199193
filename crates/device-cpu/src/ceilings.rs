//! What this CPU allows at most: streaming reads, and multiply-adds from registers. The bench holds every operation
//! against these.

use std::sync::Mutex;
use std::time::Instant;

use kauri_device::Ceilings;

use crate::pool::{Pool, share};

/// Bytes read per round: several times the largest last-level cache of a common machine would be better, but 512 MiB is
/// what a small machine can spare; the first round, which fills caches and pages, is not counted.
const STREAM_BYTES: usize = 512 << 20;
const ROUNDS: usize = 4;
/// Turns of the arithmetic loop: about 20 ms.
const TURNS: u64 = 1 << 22;

/// Measures both on all threads of `pool`; takes about a second.
pub fn measure(pool: &mut Pool) -> Ceilings {
    let (arithmetic, run) = arithmetic();
    Ceilings { bandwidth_bytes_per_s: bandwidth(pool), operations_per_s: operations(pool, run), arithmetic }
}

fn bandwidth(pool: &mut Pool) -> f64 {
    let words = vec![1u64; STREAM_BYTES / 8];
    let threads = pool.threads();
    let sink = Mutex::new(0u64);
    let mut best = f64::INFINITY;
    for round in 0..=ROUNDS {
        let start = Instant::now();
        pool.run(&|worker| {
            let sum = sum(&words[share(worker, threads, words.len())]);
            *sink.lock().expect("no holder panics") ^= sum;
        });
        if round > 0 {
            best = best.min(start.elapsed().as_secs_f64());
        }
    }
    std::hint::black_box(sink);
    STREAM_BYTES as f64 / best
}

/// A sum that reads every word once, in lanes so that the reads and not the additions are what takes time.
fn sum(words: &[u64]) -> u64 {
    let mut lanes = [0u64; 32];
    let (chunks, _) = words.as_chunks::<32>();
    for chunk in chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
}

/// A loop of `turns` turns over registers; gives back the operations it did and a value that depends on all of them.
pub(crate) type Loop = fn(turns: u64) -> (u64, f32);

pub(crate) fn operations(pool: &mut Pool, run: Loop) -> f64 {
    let mut best = 0.0f64;
    for _ in 0..3 {
        let total = Mutex::new((0u64, 0.0f32));
        let start = Instant::now();
        pool.run(&|_| {
            let (operations, value) = run(TURNS);
            let mut total = total.lock().expect("no holder panics");
            total.0 += operations;
            total.1 += value;
        });
        let seconds = start.elapsed().as_secs_f64();
        let (operations, value) = total.into_inner().expect("no holder panics");
        std::hint::black_box(value);
        best = best.max(operations as f64 / seconds);
    }
    best
}

/// The widest arithmetic of this CPU that a kernel for quantised weights could use.
#[cfg(target_arch = "x86_64")]
pub(crate) fn arithmetic() -> (&'static str, Loop) {
    if is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512f") {
        // SAFETY: the features were just detected.
        return ("int8 multiply-add, AVX-512 VNNI", |turns| unsafe { x86::vnni(turns) });
    }
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the features were just detected.
        return ("f32 multiply-add, AVX2", |turns| unsafe { x86::fma(turns) });
    }
    ("f32 multiply-add, scalar", plain)
}

/// The widest arithmetic of this CPU that a kernel for quantised weights could use.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn arithmetic() -> (&'static str, Loop) {
    ("f32 multiply-add, as compiled", plain)
}

fn plain(turns: u64) -> (u64, f32) {
    let mut lanes = [1.0f32; 32];
    let factor = std::hint::black_box(0.999_f32);
    for _ in 0..turns {
        lanes.iter_mut().for_each(|lane| *lane = *lane * factor + 0.001);
    }
    (turns * 32 * 2, lanes.iter().sum())
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm256_fmadd_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm512_dpbusd_epi32, _mm512_reduce_add_epi32,
        _mm512_set1_epi8, _mm512_setzero_si512,
    };

    /// Twelve chains of 64 byte products each: more than latency times throughput of any CPU that has them.
    ///
    /// # Safety
    /// The CPU must have AVX-512 F and VNNI.
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub unsafe fn vnni(turns: u64) -> (u64, f32) {
        let a = _mm512_set1_epi8(std::hint::black_box(3));
        let b = _mm512_set1_epi8(std::hint::black_box(2));
        let mut sums = [_mm512_setzero_si512(); 12];
        for _ in 0..turns {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, a, b);
            }
        }
        let value = sums.iter().map(|&sum| _mm512_reduce_add_epi32(sum) as f32).sum();
        (turns * 12 * 64 * 2, value)
    }

    /// Twelve chains of eight products each.
    ///
    /// # Safety
    /// The CPU must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn fma(turns: u64) -> (u64, f32) {
        let a = _mm256_set1_ps(std::hint::black_box(0.999));
        let mut sums = [_mm256_set1_ps(1.0); 12];
        for _ in 0..turns {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, a, a);
            }
        }
        let mut value = 0.0;
        for sum in sums {
            let mut lanes = [0.0f32; 8];
            // SAFETY: eight values fit the array.
            unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
            value += lanes.iter().sum::<f32>();
        }
        (turns * 12 * 8 * 2, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_are_of_the_size_of_a_computer() {
        let mut pool = Pool::new(1);
        let (name, run) = arithmetic();
        // No promise of speed: only that the loops are not optimised away (that would look like 10^15) nor broken.
        let rate = operations(&mut pool, run);
        assert!(rate > 1e7 && rate < 1e14, "{name}: {rate} operations per second");
    }
}
