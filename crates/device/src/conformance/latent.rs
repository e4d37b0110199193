//! Latent attention with awkward widths: rows that are a multiple of nothing, one head and more than a tile has, matrices of keys as
//! they are and turned, every way of keeping the cache.

use kauri_arch::Latent;
use kauri_formats::Quant;

use super::{CacheType, Case, Random};
use crate::weight::Weight;

/// The latent attention of a case, whose heads are the case's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latents {
    latent: u32,
    pub(super) rope_dims: u32,
    nope_dims: u32,
    value_dims: u32,
    low: Option<u32>,
    turned: bool,
}

/// Every way of keeping, with weights of every type.
pub(super) fn cases(quants: &[Quant], usual: &Case) -> Vec<Case> {
    let case = |heads, [latent, rope_dims, nope_dims, value_dims]: [u32; 4], low, turned| Case {
        heads,
        kv_heads: 1,
        head_norm: false,
        latents: Some(Latents { latent, rope_dims, nope_dims, value_dims, low, turned }),
        ..usual.clone()
    };
    let mut cases = Vec::new();
    for (index, &quant) in quants.iter().enumerate() {
        let (hidden, width) = if super::is_long(quant) { (256, 256) } else { (64, 64) };
        cases.push(Case { quant, hidden, ..case(3, [width, 16, width, 31], Some(width), index % 2 == 0) });
    }
    for cache in [CacheType::F32, CacheType::F16, CacheType::Q8_0, CacheType::Q4_0] {
        cases.push(Case { cache, ..case(2, [24, 6, 5, 3], None, false) });
        cases.push(Case { cache, biased: true, ..case(1, [1, 2, 1, 1], Some(1), true) });
        cases.push(Case { cache, ..case(17, [33, 8, 16, 15], None, true) });
        cases.push(Case { cache, ..case(5, [128, 64, 31, 33], Some(33), false) });
    }
    cases
}

impl Case {
    pub(super) fn latent(&self, random: &mut Random, latents: Latents) -> Latent<Weight> {
        let Latents { latent, rope_dims, nope_dims, value_dims, low, turned } = latents;
        let q_low = low.map(|rank| (self.linear(random, rank, self.hidden), self.norm_of(random, rank)));
        let (rows, columns) = if turned { (nope_dims, latent) } else { (latent, nope_dims) };
        let bare = Self { biased: false, ..self.clone() };
        Latent {
            heads: self.heads,
            latent,
            rope_dims,
            nope_dims,
            value_dims,
            q_low,
            q: self.linear(random, self.heads * (nope_dims + rope_dims), low.unwrap_or(self.hidden)),
            kv: self.linear(random, latent + rope_dims, self.hidden),
            kv_norm: self.norm_of(random, latent),
            keys: (0..self.heads).map(|_| bare.linear(random, rows, columns)).collect(),
            turned,
            values: (0..self.heads).map(|_| bare.linear(random, value_dims, latent)).collect(),
            output: self.linear(random, self.hidden, self.heads * value_dims),
            rope: 0,
            scale: 0.2,
        }
    }

    /// Values of a token in the queries, in what is gathered, and in what goes into the output.
    pub(super) fn widths(&self) -> [usize; 3] {
        let heads = self.heads as usize;
        let each = match self.latents {
            None => [self.head_dim; 3],
            Some(latents) => [latents.latent + latents.rope_dims, latents.latent, latents.value_dims],
        };
        each.map(|width| heads * width as usize)
    }
}
