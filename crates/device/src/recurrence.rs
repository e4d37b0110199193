//! The scalar definition of what goes from token to token in a state, on slices of `f32`: one token of one head or channel at a
//! time, one fixed order of summation.
//!
//! Nothing here knows a buffer, a batch or a device.

use crate::formula::{dot, sigmoid};

/// `ln(1 + e^x)`; `x` itself where the difference is under the precision of `f32`.
pub fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

/// One channel of one token: `bias + sum of weight[i] * tail[i]`, the newest input last; `tail` holds the inputs before it, the
/// oldest first, and takes it in.
pub fn convolve(weight: &[f32], bias: f32, tail: &mut [f32], x: f32) -> f32 {
    let mut sum = bias;
    for (weight, seen) in weight.iter().zip(&*tail) {
        sum += weight * seen;
    }
    sum += weight[tail.len()] * x;
    tail.rotate_left(1);
    if let Some(newest) = tail.last_mut() {
        *newest = x;
    }
    sum
}

/// One head of one token of a selective state space: `state = keep * state + (step * x) b^T`, `y = state c + skip * x`. The
/// state is (values of `x`, values of `b`).
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// (`head_dim`).
    pub x: &'a [f32],
    /// (state).
    pub b: &'a [f32],
    /// (state).
    pub c: &'a [f32],
    /// How much of the state stays.
    pub keep: f32,
    /// Factor on what it takes in.
    pub step: f32,
    /// How much of `x` passes by.
    pub skip: f32,
}

impl Scan<'_> {
    /// Takes the token into `state` and writes what the head gives.
    pub fn step(&self, state: &mut [f32], y: &mut [f32]) {
        for ((row, &x), y) in state.chunks_exact_mut(self.b.len()).zip(self.x).zip(y) {
            let taken = self.step * x;
            let mut sum = 0.0;
            for ((state, b), c) in row.iter_mut().zip(self.b).zip(self.c) {
                *state = *state * self.keep + taken * b;
                sum += *state * c;
            }
            *y = sum + self.skip * x;
        }
    }
}

/// One channel of one token of a selective state space each of whose columns decays at a pace of its own:
/// `state = e^(step * decay) * state + (step * x) b`, `y = state c + skip * x`.
#[derive(Clone, Copy, Debug)]
pub struct Select<'a> {
    /// The channel's input.
    pub x: f32,
    /// Factor on what the state takes in.
    pub step: f32,
    /// (state): negative.
    pub decay: &'a [f32],
    /// (state).
    pub b: &'a [f32],
    /// (state).
    pub c: &'a [f32],
    /// How much of `x` passes by.
    pub skip: f32,
}

impl Select<'_> {
    /// Takes the token into `state` and gives what the channel gives.
    pub fn step(&self, state: &mut [f32]) -> f32 {
        let (taken, mut sum) = (self.step * self.x, 0.0);
        for (((state, decay), b), c) in state.iter_mut().zip(self.decay).zip(self.b).zip(self.c) {
            *state = *state * (self.step * decay).exp() + taken * b;
            sum += *state * c;
        }
        sum + self.skip * self.x
    }
}

/// `x` with a length of `scale`: `scale * x / sqrt(x x + epsilon)`.
#[inline(always)]
pub fn unit(x: &[f32], epsilon: f32, scale: f32, to: &mut [f32]) {
    let factor = scale / (dot(x, x) + epsilon).sqrt();
    for (to, x) in to.iter_mut().zip(x) {
        *to = x * factor;
    }
}

/// One head of one token of the gated delta rule: the state decays, what it gives for `k` is corrected towards `v`, and it gives
/// what it has for `q`. The state is (values of `k`, values of `v`).
///
/// What the corrected state gives for `q` is computed from what the old one gave: `q h' = keep * q h + (q k) * correction`.
#[derive(Clone, Copy, Debug)]
pub struct Delta<'a> {
    /// (`key_dim`), of the length that is wanted.
    pub q: &'a [f32],
    /// (`key_dim`), of unit length.
    pub k: &'a [f32],
    /// (`value_dim`).
    pub v: &'a [f32],
    /// How much of the state stays.
    pub keep: f32,
    /// How far it is corrected.
    pub rate: f32,
}

impl Delta<'_> {
    /// Takes the token into `state` and writes what the head gives.
    pub fn step(&self, state: &mut [f32], y: &mut [f32]) {
        let (width, both) = (self.v.len(), dot(self.q, self.k));
        for (index, (&v, y)) in self.v.iter().zip(y).enumerate() {
            let (mut for_k, mut for_q) = (0.0, 0.0);
            for (row, (k, q)) in self.k.iter().zip(self.q).enumerate() {
                let state = state[row * width + index];
                for_k += state * k;
                for_q += state * q;
            }
            let correction = (v - self.keep * for_k) * self.rate;
            for (row, k) in self.k.iter().enumerate() {
                let state = &mut state[row * width + index];
                *state = *state * self.keep + k * correction;
            }
            *y = self.keep * for_q + both * correction;
        }
    }
}

/// Brings `x` to unit length; what has none stays.
#[inline(always)]
pub fn unit_over(x: &mut [f32]) {
    let factor = 1.0 / dot(x, x).sqrt().max(1e-12);
    x.iter_mut().for_each(|x| *x *= factor);
}

/// How much of a token's own value passes by a state: the sum of `r * k * bonus`.
#[inline(always)]
pub fn passes(r: &[f32], k: &[f32], bonus: &[f32]) -> f32 {
    let mut sum = 0.0;
    for ((r, k), bonus) in r.iter().zip(k).zip(bonus) {
        sum += r * k * bonus;
    }
    sum
}

/// What the sigmoid of a pace is multiplied with: `-e^-0.5`.
pub const PACE: f32 = -0.606_530_66;

/// How much of a state stays, of what decides it: `exp(-e^-0.5 * sigmoid(x))`, between 0.55 and one (RWKV-7).
pub fn pace(x: f32) -> f32 {
    (PACE * sigmoid(x)).exp()
}

/// One head of one token of RWKV-7's rule: each row of the state decays at its own pace, what it has for `seen` is taken away by
/// `back`, and `v` is put in by `k`; then it gives what it has for `r`. The state is (values of `k`, values of `v`).
#[derive(Clone, Copy, Debug)]
pub struct Replace<'a> {
    /// (keys).
    pub r: &'a [f32],
    /// (keys): how much of each row stays.
    pub keep: &'a [f32],
    /// (keys), of unit length.
    pub seen: &'a [f32],
    /// (keys).
    pub back: &'a [f32],
    /// (keys).
    pub k: &'a [f32],
    /// (values).
    pub v: &'a [f32],
}

impl Replace<'_> {
    /// Takes the token into `state` and writes what the head gives.
    pub fn step(&self, state: &mut [f32], y: &mut [f32]) {
        let width = self.v.len();
        for (index, (&v, y)) in self.v.iter().zip(y).enumerate() {
            let mut has = 0.0;
            for (row, seen) in self.seen.iter().enumerate() {
                has += state[row * width + index] * seen;
            }
            *y = 0.0;
            for (row, r) in self.r.iter().enumerate() {
                let state = &mut state[row * width + index];
                *state = *state * self.keep[row] + (self.k[row] * v - self.back[row] * has);
                *y += *state * r;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softplus_is_smooth_where_its_two_forms_meet() {
        assert_eq!(softplus(0.0), std::f32::consts::LN_2);
        assert!((softplus(19.999) - softplus(20.001) + 0.002).abs() < 1e-5);
        assert_eq!(softplus(1e30), 1e30);
        assert_eq!(softplus(-1e30), 0.0);
    }

    #[test]
    fn a_convolution_sees_its_taps_and_no_more() {
        let mut tail = [0.0; 2];
        let found = [1.0, 2.0, 3.0, 4.0].map(|x| convolve(&[100.0, 10.0, 1.0], 0.5, &mut tail, x));
        assert_eq!(found, [1.5, 12.5, 123.5, 234.5]);
        assert_eq!(tail, [3.0, 4.0]);
    }

    #[test]
    fn a_delta_rule_remembers_what_it_was_told_last() {
        let mut state = [0.0; 6];
        let mut y = [0.0; 3];
        let (k, q) = ([0.6, 0.8], [0.6, 0.8]);
        for v in [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] {
            Delta { q: &q, k: &k, v: &v, keep: 0.5, rate: 1.0 }.step(&mut state, &mut y);
            let near = y.iter().zip(v).all(|(y, v)| (y - v).abs() < 1e-5);
            assert!(near, "{y:?}");
        }
        Delta { q: &[0.8, -0.6], k: &k, v: &[0.0; 3], keep: 1.0, rate: 0.0 }.step(&mut state, &mut y);
        assert!(y.iter().all(|y| y.abs() < 1e-5), "nothing for a query that no key was like: {y:?}");
    }

    #[test]
    fn a_replaced_value_is_gone_and_others_stay() {
        let mut state = [0.0; 4];
        let mut y = [0.0; 2];
        let (one, other) = ([1.0, 0.0], [0.0, 1.0]);
        for (key, v) in [(&one, [1.0, 2.0]), (&other, [3.0, 4.0]), (&one, [5.0, 6.0])] {
            Replace { r: key, keep: &[1.0; 2], seen: key, back: key, k: key, v: &v }.step(&mut state, &mut y);
            assert_eq!(y, v);
        }
        assert_eq!(state, [5.0, 6.0, 3.0, 4.0]);
        assert!((pace(0.0) - 0.738_4).abs() < 1e-4, "{}", pace(0.0));
    }

    #[test]
    fn columns_decay_at_paces_of_their_own() {
        let mut state = [0.0; 2];
        let decay = [0.0, -std::f32::consts::LN_2];
        let given = [1.0, 0.0, 0.0].map(|x| {
            Select { x, step: 1.0, decay: &decay, b: &[8.0, 8.0], c: &[1.0, 0.25], skip: 3.0 }.step(&mut state)
        });
        assert_eq!(given, [13.0, 9.0, 8.5]);
        assert_eq!(state, [8.0, 2.0]);
    }

    #[test]
    fn a_scan_that_keeps_everything_is_a_sum() {
        let mut state = [0.0; 4];
        let mut y = [0.0; 2];
        for x in [[1.0, 2.0], [3.0, 4.0]] {
            let scan = Scan { x: &x, b: &[1.0, 10.0], c: &[1.0, 1.0], keep: 1.0, step: 0.5, skip: 2.0 };
            scan.step(&mut state, &mut y);
        }
        assert_eq!(state, [2.0, 20.0, 3.0, 30.0]);
        assert_eq!(y, [28.0, 41.0]);
    }
}
