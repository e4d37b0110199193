// The product of many rows of a buffer with one matrix in matrix units: `to = x weight^T + bias`, or `to += added * (..)`.
//
// A unit multiplies matrices of UNIT by UNIT halves and adds up in single precision. A workgroup makes TILE_TOKENS by TILE_ROWS outputs:
// 32 columns at a time of as many rows of the buffer and of the matrix are brought to its memory as halves, the matrix's unpacked on the
// way. A subgroup makes a fourth of the outputs, two by four units of them; where there are fewer subgroups they go through all columns
// again. A row of the buffer is brought with its largest value between 2^10 and 2^11, by a power of two that is taken out of its outputs:
// none becomes infinite, whatever it was. A weight beyond what a half can be is taken for the largest that one can.
// grid (rows of the matrix / TILE_ROWS, rows of the buffer / TILE_TOKENS).

const TILE_ROWS: u32 = 8u * UNIT;
const TILE_TOKENS: u32 = 4u * UNIT;
const BLOCKS: u32 = 4u;
// Places from one row of a tile to the next: more than its 32 columns, so that rows do not begin in the same bank.
const STRIDE: u32 = 40u;
const HALF_MAX: f32 = 65504.0;

// One variable, so that all of it begins where drivers want matrices to: at a multiple of 16 bytes, as its first member has it.
struct Tiles {
    first: vec4<f32>,
    weights: array<f16, TILE_ROWS * STRIDE>,
    inputs: array<f16, TILE_TOKENS * STRIDE>,
    // A unit of outputs of each block.
    outputs: array<f32, BLOCKS * UNIT * UNIT>,
    // The largest size of a value of each row of the buffer, as bits: they are in the order of the values.
    largest: array<atomic<u32>, TILE_TOKENS>,
    subgroups: u32,
}

var<workgroup> tiles: Tiles;

@compute @workgroup_size(UNIT_THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroup_count: u32,
) {
    let groups = (args.columns + 7u) / 8u;
    measure(group.y, groups, thread);
    if (thread == 0u) {
        tiles.first = vec4<f32>(0.0);
        tiles.subgroups = subgroup_count;
    }
    let count = max(workgroupUniformLoad(&tiles.subgroups), 1u);
    for (var first = 0u; first < BLOCKS; first += count) {
        // Subgroups that are too many make the last block again.
        let block = min(first + subgroup, BLOCKS - 1u);
        let block_rows = 4u * UNIT * (block % 2u) * STRIDE;
        let block_tokens = 2u * UNIT * (block / 2u) * STRIDE;
        for (var i = thread; i < UNIT * UNIT; i += UNIT_THREADS) {
            tiles.outputs[i] = 0.0;
        }
        workgroupBarrier();
        var sums00 = coopLoadT<Sums>(&tiles.outputs[0], UNIT);
        var sums01 = coopLoadT<Sums>(&tiles.outputs[0], UNIT);
        var sums02 = coopLoadT<Sums>(&tiles.outputs[0], UNIT);
        var sums03 = coopLoadT<Sums>(&tiles.outputs[0], UNIT);
        var sums10 = coopLoadT<Sums>(&tiles.outputs[0], UNIT);
        var sums11 = coopLoadT<Sums>(&tiles.outputs[0], UNIT);
        var sums12 = coopLoadT<Sums>(&tiles.outputs[0], UNIT);
        var sums13 = coopLoadT<Sums>(&tiles.outputs[0], UNIT);
        for (var step = 0u; step < groups; step += 4u) {
            workgroupBarrier();
            bring(group, step, groups, thread);
            workgroupBarrier();
            for (var column = 0u; column < 32u; column += UNIT) {
                let x0 = coopLoadT<Inputs>(&tiles.inputs[block_tokens + 0u * UNIT * STRIDE + column], STRIDE);
                let x1 = coopLoadT<Inputs>(&tiles.inputs[block_tokens + 1u * UNIT * STRIDE + column], STRIDE);
                let w0 = coopLoad<Weights>(&tiles.weights[block_rows + 0u * UNIT * STRIDE + column], STRIDE);
                let w1 = coopLoad<Weights>(&tiles.weights[block_rows + 1u * UNIT * STRIDE + column], STRIDE);
                let w2 = coopLoad<Weights>(&tiles.weights[block_rows + 2u * UNIT * STRIDE + column], STRIDE);
                let w3 = coopLoad<Weights>(&tiles.weights[block_rows + 3u * UNIT * STRIDE + column], STRIDE);
                sums00 = coopMultiplyAdd(x0, w0, sums00);
                sums01 = coopMultiplyAdd(x0, w1, sums01);
                sums02 = coopMultiplyAdd(x0, w2, sums02);
                sums03 = coopMultiplyAdd(x0, w3, sums03);
                sums10 = coopMultiplyAdd(x1, w0, sums10);
                sums11 = coopMultiplyAdd(x1, w1, sums11);
                sums12 = coopMultiplyAdd(x1, w2, sums12);
                sums13 = coopMultiplyAdd(x1, w3, sums13);
            }
        }
        let own = block * UNIT * UNIT;
        workgroupBarrier();
        coopStoreT(sums00, &tiles.outputs[own], UNIT);
        workgroupBarrier();
        put_units(group, first, count, thread, 0u, 0u);
        workgroupBarrier();
        coopStoreT(sums01, &tiles.outputs[own], UNIT);
        workgroupBarrier();
        put_units(group, first, count, thread, 0u, 1u);
        workgroupBarrier();
        coopStoreT(sums02, &tiles.outputs[own], UNIT);
        workgroupBarrier();
        put_units(group, first, count, thread, 0u, 2u);
        workgroupBarrier();
        coopStoreT(sums03, &tiles.outputs[own], UNIT);
        workgroupBarrier();
        put_units(group, first, count, thread, 0u, 3u);
        workgroupBarrier();
        coopStoreT(sums10, &tiles.outputs[own], UNIT);
        workgroupBarrier();
        put_units(group, first, count, thread, 1u, 0u);
        workgroupBarrier();
        coopStoreT(sums11, &tiles.outputs[own], UNIT);
        workgroupBarrier();
        put_units(group, first, count, thread, 1u, 1u);
        workgroupBarrier();
        coopStoreT(sums12, &tiles.outputs[own], UNIT);
        workgroupBarrier();
        put_units(group, first, count, thread, 1u, 2u);
        workgroupBarrier();
        coopStoreT(sums13, &tiles.outputs[own], UNIT);
        workgroupBarrier();
        put_units(group, first, count, thread, 1u, 3u);
        workgroupBarrier();
    }
}

// Finds the largest value of each row of the buffer.
fn measure(group_y: u32, groups: u32, thread: u32) {
    for (var i = thread; i < TILE_TOKENS; i += UNIT_THREADS) {
        atomicStore(&tiles.largest[i], 0u);
    }
    workgroupBarrier();
    for (var i = 0u; i < TILE_TOKENS; i++) {
        let token = TILE_TOKENS * group_y + i;
        var most = vec4<u32>(0u);
        if (token < args.tokens) {
            for (var eight = thread; eight < groups; eight += UNIT_THREADS) {
                let x = inputs(args.from_at + token * args.columns, args.columns, eight);
                most = max(most, max(bitcast<vec4<u32>>(abs(x.low)), bitcast<vec4<u32>>(abs(x.high))));
            }
        }
        atomicMax(&tiles.largest[i], max(max(most.x, most.y), max(most.z, most.w)));
    }
    workgroupBarrier();
}

// The exponent, as it is stored, of a row's largest value; of tiny ones and zeros one whose factor is a number.
fn exponent(row: u32) -> u32 {
    return max(atomicLoad(&tiles.largest[row]) >> 23u, 11u);
}

// Brings 32 columns, or what there is behind eight times `step`, of rows of the matrix and of the buffer.
fn bring(group: vec3<u32>, step: u32, groups: u32, thread: u32) {
    for (var i = thread; i < 4u * TILE_ROWS; i += UNIT_THREADS) {
        let row = TILE_ROWS * group.x + i / 4u;
        let eight = step + i % 4u;
        var weights = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
        if (row < args.rows && eight < groups) {
            weights = eight0(args.quant, args.at + row * args.row_bytes, args.columns, eight);
        }
        let at = STRIDE * (i / 4u) + 8u * (i % 4u);
        let low = vec4<f16>(clamp(weights.low, vec4<f32>(-HALF_MAX), vec4<f32>(HALF_MAX)));
        let high = vec4<f16>(clamp(weights.high, vec4<f32>(-HALF_MAX), vec4<f32>(HALF_MAX)));
        tiles.weights[at] = low.x;
        tiles.weights[at + 1u] = low.y;
        tiles.weights[at + 2u] = low.z;
        tiles.weights[at + 3u] = low.w;
        tiles.weights[at + 4u] = high.x;
        tiles.weights[at + 5u] = high.y;
        tiles.weights[at + 6u] = high.z;
        tiles.weights[at + 7u] = high.w;
    }
    for (var i = thread; i < 4u * TILE_TOKENS; i += UNIT_THREADS) {
        let token = TILE_TOKENS * group.y + i / 4u;
        let eight = step + i % 4u;
        var x = Eight(vec4<f32>(0.0), vec4<f32>(0.0));
        if (token < args.tokens && eight < groups) {
            x = inputs(args.from_at + token * args.columns, args.columns, eight);
        }
        let factor = bitcast<f32>((264u - exponent(i / 4u)) << 23u);
        let at = STRIDE * (i / 4u) + 8u * (i % 4u);
        let low = vec4<f16>(factor * x.low);
        let high = vec4<f16>(factor * x.high);
        tiles.inputs[at] = low.x;
        tiles.inputs[at + 1u] = low.y;
        tiles.inputs[at + 2u] = low.z;
        tiles.inputs[at + 3u] = low.w;
        tiles.inputs[at + 4u] = high.x;
        tiles.inputs[at + 5u] = high.y;
        tiles.inputs[at + 6u] = high.z;
        tiles.inputs[at + 7u] = high.w;
    }
}

// Writes the units of outputs that the blocks from `first` on have in the tile: in each the one of these places.
fn put_units(group: vec3<u32>, first: u32, count: u32, thread: u32, unit_token: u32, unit_row: u32) {
    for (var i = thread; i < BLOCKS * UNIT * UNIT; i += UNIT_THREADS) {
        let block = i / (UNIT * UNIT);
        if (block >= first && block < first + count) {
            let place = i % (UNIT * UNIT);
            let token = UNIT * (2u * (block / 2u) + unit_token) + place / UNIT;
            let row = UNIT * (4u * (block % 2u) + unit_row) + place % UNIT;
            let factor = bitcast<f32>((exponent(token) - 10u) << 23u);
            put_one(TILE_TOKENS * group.y + token, TILE_ROWS * group.x + row, factor * tiles.outputs[i]);
        }
    }
}
