//! The one forward pass: token ids to logits, for every family, quant, batch and device.
//!
//! It only enqueues operations and never reads a value back, so that a device may record a step and replay it. It runs a
//! range of blocks, so that several devices may share a model.

use std::ops::Range;

use kauri_arch::{Branch, Ffn, Mixer, Shape, Wiring};

use crate::buffers::Buffer;
use crate::ops::Ops;

/// Runs `blocks` of `shape` on the batch that `device` was given: the first block brings the embedding, the last the head.
pub fn forward<D: Ops + ?Sized>(device: &mut D, shape: &Shape<D::Weight>, blocks: Range<usize>) {
    if blocks.start == 0 {
        device.embed(&shape.embed);
    }
    let last = blocks.end == shape.blocks.len();
    for index in blocks {
        let block = &shape.blocks[index];
        match block.wiring {
            Wiring::Sequential => {
                mix(device, index, &block.mixer);
                feed(device, &block.ffn);
                finish(device, &block.ffn);
            }
            // Both branches read the stream before either adds to it.
            Wiring::Parallel => {
                feed(device, &block.ffn);
                mix(device, index, &block.mixer);
                finish(device, &block.ffn);
            }
        }
    }
    if last {
        device.head(&shape.norm, &shape.head);
    }
}

/// `Stream` += the mixer of block `index`.
fn mix<D: Ops + ?Sized>(device: &mut D, index: usize, branch: &Branch<Mixer<D::Weight>, D::Weight>) {
    match &branch.op {
        Mixer::Attention(attention) => {
            device.qkv(index, branch.norm.as_ref(), attention);
            device.attend(index, attention);
            device.project(&attention.output, Buffer::Mixed, branch.post_norm.as_ref(), branch.scale);
        }
    }
}

/// `Stream` -> what the feed-forward network has before the last step of its branch.
fn feed<D: Ops + ?Sized>(device: &mut D, branch: &Branch<Ffn<D::Weight>, D::Weight>) {
    match &branch.op {
        Ffn::Dense(dense) => device.gate_up(branch.norm.as_ref(), dense),
        Ffn::Moe(moe) => device.experts(branch.norm.as_ref(), moe),
    }
}

/// That -> `Stream`.
fn finish<D: Ops + ?Sized>(device: &mut D, branch: &Branch<Ffn<D::Weight>, D::Weight>) {
    match &branch.op {
        Ffn::Dense(dense) => device.project(&dense.down, Buffer::Gate, branch.post_norm.as_ref(), branch.scale),
        Ffn::Moe(_) => device.conclude(Buffer::Mixture, branch.post_norm.as_ref(), branch.scale),
    }
}
