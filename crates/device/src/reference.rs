//! The fused blocks as compositions of primitives: what every faster version of them must equal.

use kauri_arch::{Attention, Dense, GatedDelta, Head, Latent, Leaning, Linear, Moe, Norm, Shared, TimeMix};

use crate::buffers::Buffer;
use crate::ops::{Ops, Part, Share, Side};

/// See [`Ops::qkv`].
pub fn qkv<D: Ops + ?Sized>(
    device: &mut D,
    block: usize,
    norm: Option<&Norm<D::Weight>>,
    attention: &Attention<D::Weight>,
) {
    let input = normed(device, norm);
    device.linear(&attention.q, input, if attention.gated { Buffer::Packed } else { Buffer::Query });
    device.linear(&attention.k, input, Buffer::Key);
    device.linear(&attention.v, input, Buffer::Value);
    turn_and_store(device, block, attention);
}

/// The second half of [`Ops::qkv`]: norms of heads, rope, and the cache.
pub fn turn_and_store<D: Ops + ?Sized>(device: &mut D, block: usize, attention: &Attention<D::Weight>) {
    let (heads, kv_heads) = (attention.heads as usize, attention.kv_heads as usize);
    let head_dim = attention.head_dim as usize;
    deal_gates(device, attention);
    if let Some(norm) = &attention.q_norm {
        device.norm(norm, heads * head_dim / norm.width as usize, Buffer::Query, Buffer::Query);
    }
    if let Some(norm) = &attention.k_norm {
        device.norm(norm, kv_heads * head_dim / norm.width as usize, Buffer::Key, Buffer::Key);
    }
    if let Some(rope) = attention.rope {
        device.rope(rope, heads, head_dim, Buffer::Query);
        device.rope(rope, kv_heads, head_dim, Buffer::Key);
    }
    device.store(block, attention);
}

/// Queries and the gates that were projected with them, if they were, each to its buffer.
pub fn deal_gates<D: Ops + ?Sized>(device: &mut D, attention: &Attention<D::Weight>) {
    if attention.gated {
        let (heads, head_dim) = (attention.heads as usize, attention.head_dim as usize);
        let part = |to| Part { width: head_dim, to, row: heads * head_dim, start: 0 };
        device.deal(heads, &[part(Buffer::Query), part(Buffer::MixerGate)]);
    }
}

/// See [`Ops::inputs`].
pub fn inputs<D: Ops + ?Sized, const N: usize>(
    device: &mut D,
    norm: Option<&Norm<D::Weight>>,
    products: [(&Linear<D::Weight>, Buffer); N],
) {
    let input = normed(device, norm);
    for (linear, to) in products {
        device.linear(linear, input, to);
    }
}

/// See [`Ops::delta_inputs`].
pub fn delta_inputs<D: Ops + ?Sized>(device: &mut D, norm: Option<&Norm<D::Weight>>, delta: &GatedDelta<D::Weight>) {
    let GatedDelta { input, gate, rates, steps, .. } = delta;
    if let (Some(gate), Some(steps)) = (gate, steps) {
        let (input, gate) = ((input, Buffer::Channels), (gate, Buffer::MixerGate));
        device.inputs(norm, [input, gate, (rates, Buffer::Rates), (steps, Buffer::Steps)]);
        return;
    }
    let groups = delta.key_heads as usize;
    let (each, keys, width) = (delta.value_heads as usize / groups, delta.key_width() as usize, delta.width() as usize);
    let from = normed(device, norm);
    if let Some(gate) = gate {
        device.linear(input, from, Buffer::Channels);
        device.linear(gate, from, Buffer::MixerGate);
    } else {
        device.linear(input, from, Buffer::Packed);
        let (key, values) = (delta.key_dim as usize, each * delta.value_dim as usize);
        let channels =
            |width, start| Part { width, to: Buffer::Channels, row: 2 * keys + delta.width() as usize, start };
        let gates = Part { width: values, to: Buffer::MixerGate, row: width, start: 0 };
        device.deal(groups, &[channels(key, 0), channels(key, keys), channels(values, 2 * keys), gates]);
    }
    if let Some(steps) = steps {
        device.linear(rates, from, Buffer::Rates);
        device.linear(steps, from, Buffer::Steps);
    } else {
        device.linear(rates, from, Buffer::Packed);
        let part = |to| Part { width: each, to, row: delta.value_heads as usize, start: 0 };
        device.deal(groups, &[part(Buffer::Rates), part(Buffer::Steps)]);
    }
}

/// See [`Ops::latent`].
pub fn latent<D: Ops + ?Sized>(
    device: &mut D,
    block: usize,
    norm: Option<&Norm<D::Weight>>,
    latent: &Latent<D::Weight>,
) {
    let input = normed(device, norm);
    device.linear(&latent.kv, input, Buffer::Value);
    match &latent.q_low {
        None => device.linear(&latent.q, input, Buffer::Parts),
        Some((low, _)) => device.linear(low, input, Buffer::Low),
    }
    fold_and_store(device, block, latent);
}

/// The second half of [`Ops::latent`]: what stands in `Value`, and in `Low` or `Parts`, to queries and the cache.
pub fn fold_and_store<D: Ops + ?Sized>(device: &mut D, block: usize, latent: &Latent<D::Weight>) {
    if let Some((_, norm)) = &latent.q_low {
        device.norm(norm, 1, Buffer::Low, Buffer::Low);
        device.linear(&latent.q, Buffer::Low, Buffer::Parts);
    }
    device.fold(latent);
    let row = latent.row() as usize;
    device.rope(latent.rope, latent.heads as usize, row, Buffer::Query);
    device.rope(latent.rope, 1, row, Buffer::Key);
    device.store_rows(block, latent);
}

/// See [`Ops::gate_up`].
pub fn gate_up<D: Ops + ?Sized>(device: &mut D, norm: Option<&Norm<D::Weight>>, dense: &Dense<D::Weight>) {
    let input = normed(device, norm);
    widen(device, input, dense);
}

/// The wide values of a feed-forward network that reads `input`: to `Gate`.
pub fn widen<D: Ops + ?Sized>(device: &mut D, input: Buffer, dense: &Dense<D::Weight>) {
    if let Some(gate) = &dense.gate {
        device.linear(gate, input, Buffer::Gate);
    }
    device.linear(&dense.up, input, Buffer::Up);
    finish_gate(device, dense);
}

/// The second half of [`Ops::gate_up`]: the factor on the gate, and the activation.
pub fn finish_gate<D: Ops + ?Sized>(device: &mut D, dense: &Dense<D::Weight>) {
    if dense.gate_scale != 1.0 {
        device.scale(Buffer::Gate, &[(dense.up.rows, dense.gate_scale)]);
    }
    device.activate(dense.activation, dense.gate.is_some(), dense.up.rows as usize);
}

/// See [`Ops::time_mix_inputs`].
pub fn time_mix_inputs<D: Ops + ?Sized>(
    device: &mut D,
    block: usize,
    norm: Option<&Norm<D::Weight>>,
    mix: &TimeMix<D::Weight>,
) {
    let input = normed(device, norm);
    device.shift(block, Side::Mixer, input);
    for (Leaning { lean, op }, to) in [(&mix.r, Buffer::Query), (&mix.k, Buffer::Key), (&mix.v, Buffer::Value)] {
        device.lean(lean, input);
        device.linear(op, Buffer::Leant, to);
    }
    // What `v` read is still there.
    if let Some(residual) = &mix.residual {
        by_way_of_few(device, residual, Buffer::Mixed);
    }
    let gate = mix.gate.as_ref().map(|gate| (gate, Buffer::MixerGate));
    for (Leaning { lean, op }, to) in [(&mix.decay, Buffer::Steps), (&mix.rate, Buffer::Rates)].into_iter().chain(gate)
    {
        device.lean(lean, input);
        by_way_of_few(device, op, to);
    }
}

/// What `dense` makes of `Leant`: to `to`.
fn by_way_of_few<D: Ops + ?Sized>(device: &mut D, dense: &Dense<D::Weight>, to: Buffer) {
    widen(device, Buffer::Leant, dense);
    device.linear(&dense.down, Buffer::Gate, to);
}

/// See [`Ops::shifted_up`].
pub fn shifted_up<D: Ops + ?Sized>(
    device: &mut D,
    block: usize,
    norm: Option<&Norm<D::Weight>>,
    shifted: &Leaning<Dense<D::Weight>, D::Weight>,
) {
    let input = normed(device, norm);
    device.shift(block, Side::Ffn, input);
    device.lean(&shifted.lean, input);
    widen(device, Buffer::Leant, &shifted.op);
}

/// See [`Ops::experts`]. Every expert sees every token: what a device may leave out is what has no weight.
pub fn experts<D: Ops + ?Sized>(device: &mut D, norm: Option<&Norm<D::Weight>>, moe: &Moe<D::Weight>) {
    let input = normed(device, norm);
    device.linear(&moe.router, input, Buffer::Scores);
    device.route(moe);
    for (index, expert) in moe.experts.iter().enumerate() {
        widen(device, input, expert);
        device.linear(&expert.down, Buffer::Gate, Buffer::Branch);
        device.join(Share::Expert { index, count: moe.experts.len() });
    }
    if let Some(shared) = &moe.shared {
        share(device, input, shared);
    }
}

/// See [`Ops::beside`].
pub fn beside<D: Ops + ?Sized>(device: &mut D, norm: Option<&Norm<D::Weight>>, shared: &Shared<D::Weight>) {
    let input = normed(device, norm);
    share(device, input, shared);
}

/// What every token goes through beside experts, of `input`: added to `Mixture`.
fn share<D: Ops + ?Sized>(device: &mut D, input: Buffer, shared: &Shared<D::Weight>) {
    widen(device, input, &shared.dense);
    device.linear(&shared.dense.down, Buffer::Gate, Buffer::Branch);
    let Some(gate) = &shared.gate else { return device.join(Share::Whole) };
    device.linear(gate, input, Buffer::Scores);
    device.join(Share::Gate);
}

/// See [`Ops::conclude`].
pub fn conclude<D: Ops + ?Sized>(device: &mut D, from: Buffer, norm: Option<&Norm<D::Weight>>, scale: f32) {
    if let Some(norm) = norm {
        device.norm(norm, 1, from, from);
    }
    device.add(from, scale);
}

/// See [`Ops::project`].
pub fn project<D: Ops + ?Sized>(
    device: &mut D,
    linear: &Linear<D::Weight>,
    from: Buffer,
    norm: Option<&Norm<D::Weight>>,
    scale: f32,
) {
    device.linear(linear, from, Buffer::Branch);
    conclude(device, Buffer::Branch, norm, scale);
}

/// See [`Ops::head`].
pub fn head<D: Ops + ?Sized>(device: &mut D, norm: &Norm<D::Weight>, head: &Head<D::Weight>) {
    device.gather();
    device.norm(norm, 1, Buffer::Last, Buffer::Last);
    let Some(output) = &head.output else { return };
    device.linear(output, Buffer::Last, Buffer::Logits);
    if head.scale != 1.0 || head.soft_cap.is_some() {
        device.scale_logits(head.scale, head.soft_cap);
    }
}

/// What a branch reads: its norm of the stream, or the stream itself.
fn normed<D: Ops + ?Sized>(device: &mut D, norm: Option<&Norm<D::Weight>>) -> Buffer {
    let Some(norm) = norm else { return Buffer::Stream };
    device.norm(norm, 1, Buffer::Stream, Buffer::Normed);
    Buffer::Normed
}
