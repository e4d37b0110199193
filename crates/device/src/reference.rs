//! The fused blocks as compositions of primitives: what every faster version of them must equal.

use kauri_arch::{Attention, Dense, Head, Linear, Norm};

use crate::buffers::Buffer;
use crate::ops::Ops;

/// See [`Ops::qkv`].
pub fn qkv<D: Ops + ?Sized>(
    device: &mut D,
    block: usize,
    norm: Option<&Norm<D::Weight>>,
    attention: &Attention<D::Weight>,
) {
    let input = normed(device, norm);
    device.linear(&attention.q, input, Buffer::Query);
    device.linear(&attention.k, input, Buffer::Key);
    device.linear(&attention.v, input, Buffer::Value);
    turn_and_store(device, block, attention);
}

/// The second half of [`Ops::qkv`]: norms of heads, rope, and the cache.
pub fn turn_and_store<D: Ops + ?Sized>(device: &mut D, block: usize, attention: &Attention<D::Weight>) {
    let (heads, kv_heads) = (attention.heads as usize, attention.kv_heads as usize);
    let head_dim = attention.head_dim as usize;
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

/// See [`Ops::gate_up`].
pub fn gate_up<D: Ops + ?Sized>(device: &mut D, norm: Option<&Norm<D::Weight>>, dense: &Dense<D::Weight>) {
    let input = normed(device, norm);
    if let Some(gate) = &dense.gate {
        device.linear(gate, input, Buffer::Gate);
    }
    device.linear(&dense.up, input, Buffer::Up);
    device.activate(dense.activation, dense.gate.is_some(), dense.up.rows as usize);
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
    if let Some(norm) = norm {
        device.norm(norm, 1, Buffer::Branch, Buffer::Branch);
    }
    device.add(Buffer::Branch, scale);
}

/// See [`Ops::head`].
pub fn head<D: Ops + ?Sized>(device: &mut D, norm: &Norm<D::Weight>, head: &Head<D::Weight>) {
    device.gather();
    device.norm(norm, 1, Buffer::Last, Buffer::Last);
    device.linear(&head.output, Buffer::Last, Buffer::Logits);
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
