//! What this CPU allows at most: streaming reads, and multiply-adds from registers. The bench holds every operation
//! against these.

use std::sync::Mutex;
use std::time::Instant;

use kauri_device::Ceilings;

use crate::aligned::prefer_large_pages;
use crate::detect::Isa;
use crate::pool::{Pool, share};

/// Bytes read per round: several times the largest last-level cache of a common machine would be better, but 512 MiB is
/// what a small machine can spare; the first round, which fills caches and pages, is not counted.
const STREAM_BYTES: usize = 512 << 20;
const ROUNDS: usize = 4;
/// Turns of the arithmetic loop: about 20 ms.
const TURNS: u64 = 1 << 22;

/// Measures both on all threads of `pool`; takes about a second.
pub fn measure(pool: &mut Pool) -> Ceilings {
    let isa = Isa::best();
    let (arithmetic, run) = arithmetic(isa);
    Ceilings { bandwidth_bytes_per_s: bandwidth(pool, isa), operations_per_s: operations(pool, run), arithmetic }
}

/// The same on so many threads of their own, where there is no model.
pub fn of_this_machine(threads: usize) -> Ceilings {
    measure(&mut Pool::new(threads))
}

fn bandwidth(pool: &mut Pool, isa: Isa) -> f64 {
    let words = stream();
    let (threads, ways) = (pool.threads(), reads(isa));
    let sink = Mutex::new(0u64);
    let mut best = f64::INFINITY;
    for round in 0..=2 * ROUNDS {
        let read = ways[round % 2];
        let start = Instant::now();
        pool.all(&|worker| {
            let sum = read(&words[share(worker, threads, words.len())]);
            *sink.lock().expect("no holder panics") ^= sum;
        });
        if round > 0 {
            best = best.min(start.elapsed().as_secs_f64());
        }
    }
    std::hint::black_box(sink);
    STREAM_BYTES as f64 / best
}

/// What is read: ones, in large pages where the system gives them, as it gives them to weights.
fn stream() -> Vec<u64> {
    let mut words = Vec::<u64>::with_capacity(STREAM_BYTES / 8);
    prefer_large_pages(words.spare_capacity_mut());
    words.resize(STREAM_BYTES / 8, 1);
    words
}

/// Places that a thread reads from in turn, where it is not one: the memory of some CPUs gives up to twice as much to several, that of others
/// half as much again to one.
const SEVERAL: usize = 8;

/// A sum of all words but a rest: [`sum`], compiled for an instruction set, of one stream or [`SEVERAL`].
type Reads = fn(&[u64]) -> u64;

/// Reads as wide as the instruction set has: with those of 16 bytes that any x86-64 has, the loop and not the memory may be the limit.
#[cfg(target_arch = "x86_64")]
fn reads(isa: Isa) -> [Reads; 2] {
    assert!(isa.is_supported(), "this CPU has no {}", isa.name());
    match isa {
        Isa::Avx512 | Isa::Amx => [
            // SAFETY: the CPU was just asked.
            |words| unsafe { x86::sum_512::<1>(words) },
            // SAFETY: the same.
            |words| unsafe { x86::sum_512::<SEVERAL>(words) },
        ],
        Isa::Avx2 | Isa::AvxVnni => [
            // SAFETY: the same.
            |words| unsafe { x86::sum_256::<1>(words) },
            // SAFETY: the same.
            |words| unsafe { x86::sum_256::<SEVERAL>(words) },
        ],
        Isa::Scalar | Isa::Neon | Isa::NeonMatrix => [sum::<1>, sum::<SEVERAL>],
    }
}

/// Reads as wide as the instruction set has: 16 bytes, which is what the compiler makes of the loop.
#[cfg(not(target_arch = "x86_64"))]
fn reads(_isa: Isa) -> [Reads; 2] {
    [sum::<1>, sum::<SEVERAL>]
}

/// A sum that reads every word once, but for a rest, in lanes so that the reads and not the additions are what takes time.
#[inline(always)]
fn sum<const STREAMS: usize>(words: &[u64]) -> u64 {
    let (lines, _) = words.as_chunks::<32>();
    let part = lines.len() / STREAMS;
    let mut lanes = [0u64; 32];
    for at in 0..part {
        for line in lines[at..].iter().step_by(part).take(STREAMS) {
            for (lane, word) in lanes.iter_mut().zip(line) {
                *lane = lane.wrapping_add(*word);
            }
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
        pool.all(&|_| {
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

/// The widest arithmetic of an instruction set that a kernel for quantised weights could use: with AMX that of its vectors, which every
/// type is multiplied with; the tiles that some types gain by have a limit of their own, five times as high.
#[cfg(target_arch = "x86_64")]
pub(crate) fn arithmetic(isa: Isa) -> (&'static str, Loop) {
    assert!(isa.is_supported(), "this CPU has no {}", isa.name());
    match isa {
        // SAFETY: the CPU was just asked.
        Isa::Avx512 | Isa::Amx => ("int8 multiply-add, AVX-512 VNNI", |turns| unsafe { x86::vnni_512(turns) }),
        // SAFETY: the same.
        Isa::AvxVnni => ("int8 multiply-add, AVX-VNNI", |turns| unsafe { x86::vnni_256(turns) }),
        // SAFETY: the same.
        Isa::Avx2 => ("int8 multiply-add, AVX2", |turns| unsafe { x86::halves(turns) }),
        Isa::Scalar | Isa::Neon | Isa::NeonMatrix => ("f32 multiply-add, as compiled", plain),
    }
}

/// The widest arithmetic of an instruction set that a kernel for quantised weights could use.
#[cfg(target_arch = "aarch64")]
pub(crate) fn arithmetic(isa: Isa) -> (&'static str, Loop) {
    assert!(isa.is_supported(), "this CPU has no {}", isa.name());
    match isa {
        // SAFETY: the CPU was just asked.
        Isa::Neon => ("int8 multiply-add, NEON dotprod", |turns| unsafe { arm::sdot(turns) }),
        // SAFETY: the same.
        Isa::NeonMatrix => ("int8 multiply-add, NEON i8mm", |turns| unsafe { arm::smmla(turns) }),
        Isa::Scalar | Isa::Avx2 | Isa::AvxVnni | Isa::Avx512 | Isa::Amx => ("f32 multiply-add, as compiled", plain),
    }
}

/// The widest arithmetic of an instruction set that a kernel for quantised weights could use.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn arithmetic(_isa: Isa) -> (&'static str, Loop) {
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
        __m256i, _mm256_add_epi16, _mm256_add_epi32, _mm256_dpbusd_avx_epi32, _mm256_madd_epi16, _mm256_maddubs_epi16,
        _mm256_set1_epi8, _mm256_set1_epi16, _mm256_setzero_si256, _mm256_storeu_si256, _mm512_dpbusd_epi32,
        _mm512_reduce_add_epi32, _mm512_set1_epi8, _mm512_setzero_si512,
    };

    /// [`super::sum`] in vectors of 64 bytes.
    #[target_feature(enable = "avx512f")]
    pub fn sum_512<const STREAMS: usize>(words: &[u64]) -> u64 {
        super::sum::<STREAMS>(words)
    }

    /// [`super::sum`] in vectors of 32 bytes.
    #[target_feature(enable = "avx2")]
    pub fn sum_256<const STREAMS: usize>(words: &[u64]) -> u64 {
        super::sum::<STREAMS>(words)
    }

    /// Twelve chains of 64 byte products each: more than latency times throughput of any CPU that has them.
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn vnni_512(turns: u64) -> (u64, f32) {
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

    /// Twelve chains of 32 byte products each.
    #[target_feature(enable = "avx2,avxvnni")]
    pub fn vnni_256(turns: u64) -> (u64, f32) {
        let a = _mm256_set1_epi8(std::hint::black_box(3));
        let b = _mm256_set1_epi8(std::hint::black_box(2));
        let mut sums = [_mm256_setzero_si256(); 12];
        for _ in 0..turns {
            for sum in &mut sums {
                *sum = _mm256_dpbusd_avx_epi32(*sum, a, b);
            }
        }
        (turns * 12 * 32 * 2, first(&sums))
    }

    /// The same from two instructions, and two more for each eight products: weights of four bits add up to so many in sixteen. Each
    /// product is of the sums before it: those of constants would be computed once.
    #[target_feature(enable = "avx2")]
    pub fn halves(turns: u64) -> (u64, f32) {
        let (b, ones) = (_mm256_set1_epi8(std::hint::black_box(2)), _mm256_set1_epi16(1));
        let mut halves = [_mm256_set1_epi8(1); 12];
        let mut total = _mm256_setzero_si256();
        for _ in 0..turns / 8 {
            for _ in 0..8 {
                for sum in &mut halves {
                    *sum = _mm256_add_epi16(*sum, _mm256_maddubs_epi16(*sum, b));
                }
            }
            for &sum in &halves {
                total = _mm256_add_epi32(total, _mm256_madd_epi16(sum, ones));
            }
        }
        (turns / 8 * 8 * 12 * 32 * 2, first(&[total; 12]))
    }

    /// A value that depends on all sums.
    #[target_feature(enable = "avx2")]
    fn first(sums: &[__m256i; 12]) -> f32 {
        let mut total = _mm256_setzero_si256();
        for &sum in sums {
            total = _mm256_add_epi32(total, sum);
        }
        let mut lanes = [0i32; 8];
        // SAFETY: eight values fit the array.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), total) };
        lanes[0] as f32
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::{int32x4_t, uint8x16_t, vaddvq_s32, vdupq_n_s32, vdupq_n_u8};

    use crate::aarch64::neon;

    /// Sixteen chains of 16 byte products each: more than latency times throughput of any CPU that has them.
    #[target_feature(enable = "neon,dotprod")]
    pub fn sdot(turns: u64) -> (u64, f32) {
        // SAFETY: this function has the instructions.
        chains(turns, 16, |sum, a, b| unsafe { neon::sdot(sum, a, b) })
    }

    /// The same of 32.
    #[target_feature(enable = "neon,i8mm")]
    pub fn smmla(turns: u64) -> (u64, f32) {
        // SAFETY: this function has the instructions.
        chains(turns, 32, |sum, a, b| unsafe { neon::smmla(sum, a, b) })
    }

    /// Sixteen chains of an instruction with so many products.
    #[inline(always)]
    fn chains(turns: u64, products: u64, add: impl Fn(int32x4_t, uint8x16_t, uint8x16_t) -> int32x4_t) -> (u64, f32) {
        // SAFETY: every such CPU has NEON.
        unsafe {
            let a = vdupq_n_u8(std::hint::black_box(3));
            let b = vdupq_n_u8(std::hint::black_box(2));
            let mut sums = [vdupq_n_s32(0); 16];
            for _ in 0..turns {
                for sum in &mut sums {
                    *sum = add(*sum, a, b);
                }
            }
            (turns * 16 * products * 2, sums.iter().map(|&sum| vaddvq_s32(sum) as f32).sum())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sum_every_word_of_whole_streams_once() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_supported()) {
            let ways = reads(isa).into_iter().zip([1, SEVERAL]);
            for ((read, streams), lines) in ways.flat_map(|way| [0, 1, 5].map(|lines| (way, lines))) {
                let whole = lines * streams * 32;
                let mut words: Vec<u64> = (1..=whole as u64).collect();
                let sum = words.iter().sum::<u64>();
                // Less than a line of each stream: the rest, which is not read.
                words.resize(whole + streams * 32 - 1, 1 << 40);
                assert_eq!(read(&words), sum, "{}, {lines} lines of each of {streams}", isa.name());
            }
        }
    }

    #[test]
    fn ceilings_are_of_the_size_of_a_computer() {
        let mut pool = Pool::new(1);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_supported()) {
            let (name, run) = arithmetic(isa);
            // No promise of speed: only that the loops are not optimised away (that would look like 10^15) nor broken.
            let rate = operations(&mut pool, run);
            println!("{name}: {:.0} Gop/s", rate / 1e9);
            assert!(rate > 1e7 && rate < 1e14, "{name}: {rate} operations per second");
        }
    }
}
