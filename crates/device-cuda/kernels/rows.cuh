// Rows of activations on their way into a product: normalised or gated, and turned into what the product reads: blocks of codes, bf16 or
// plain values. The bodies of the kernels in rows.cu.
#pragma once
#include "codes.cuh"

struct NormRows {
    const float* from;  // (tokens, from_stride)
    RowNorm norm;       // without a weight a row is only converted
    RowOutputs to;
    int columns, from_stride;
};

struct GateRows {
    const float* gate;  // (tokens, columns); null: to = activation(up)
    const float* up;    // (tokens, columns)
    RowOutputs to;
    int columns, tokens;
    Activation activation;
    float gate_scale;
};
