// The batch as it came from the host, laid out for the kernels, and what all layers take from it: angles of ropes, embeddings.
#include "types.cuh"

// Neighbouring tokens of one sequence. As in `attend.cuh`.
struct Tile {
    int token, count, position, end, table;
};

// What the host sent: eight counts (tokens, outputs, sequences, pages, tiles), then ids, sequences, outputs, pages, tiles. Tiles up to
// `room` that are none get a count of zero.
//
// grid (enough threads for the tokens or the pages), 128 threads.
KERNEL begin(const u32 *sent, int *counts, Token *tokens, Sequence *sequences, int *outputs, u32 *pages, Tile *tiles,
             int room) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    int token_count = sent[0], output_count = sent[1], sequence_count = sent[2], page_count = sent[3];
    int tile_count = sent[4];
    const u32 *ids = sent + 8;
    const Sequence *from = (const Sequence *)(ids + (token_count + 3) / 4 * 4);
    const u32 *sent_outputs = (const u32 *)(from + sequence_count), *sent_pages = sent_outputs + output_count;
    const Tile *sent_tiles = (const Tile *)(sent_pages + page_count);
    if (at < 4) counts[at] = sent[at];
    for (int i = at; i < sequence_count; i += step) sequences[i] = from[i];
    for (int i = at; i < output_count; i += step) outputs[i] = sent_outputs[i];
    for (int i = at; i < page_count; i += step) pages[i] = sent_pages[i];
    for (int i = at; i < room; i += step) tiles[i] = i < tile_count ? sent_tiles[i] : Tile{0, 0, 0, 0, 0};
    for (int i = at; i < token_count; i += step) {
        // The last sequence that begins at or before the token.
        int low = 0, high = sequence_count - 1;
        while (low < high) {
            int middle = (low + high + 1) / 2;
            if (from[middle].first <= i) low = middle;
            else high = middle - 1;
        }
        Sequence s = from[low];
        tokens[i] = Token{ids[i], s.cached + i - s.first, low, s.cached + s.count};
    }
}

// Cosine and sine of every pair of every token: (tokens, pairs).
//
// grid (pairs / 64, tokens), 64 threads.
KERNEL angles(Batch batch, const float *near, const float *far, u32 far_from, float factor, int pairs, float2 *turns) {
    follow();
    int pair = blockIdx.x * blockDim.x + threadIdx.x, index = blockIdx.y;
    if (index >= batch.counts[0] || pair >= pairs) return;
    Token token = batch.tokens[index];
    bool is_far = far && (u32)batch.sequences[token.sequence].reach > far_from;
    float sine, cosine;
    sincosf(__fmul_rn((float)token.position, is_far ? far[pair] : near[pair]), &sine, &cosine);
    turns[(size_t)index * pairs + pair] = make_float2(cosine * factor, sine * factor);
}

// to[t] = table[id] * scale, and the rows that are added to it.
//
// grid (columns / 1024, tokens), 128 threads.
KERNEL embed(Batch batch, const u8 *table, int quant, int columns, float scale, const u8 *places, int places_quant,
             const u8 *kinds, int kinds_quant, int kinds_rows, float *to) {
    follow();
    int group = blockIdx.x * blockDim.x + threadIdx.x, index = blockIdx.y;
    if (index >= batch.counts[0] || 8 * group >= columns) return;
    Token token = batch.tokens[index];
    float v[8], added[8];
    eight_of(quant, table + token.id * row_bytes(quant, columns), columns, group, v);
    EACH v[j] *= scale;
    if (places) {
        eight_of(places_quant, places + token.position * row_bytes(places_quant, columns), columns, group, added);
        EACH v[j] += added[j];
    }
    if (kinds) {
        int kind = (u32)token.position < (u32)batch.sequences[token.sequence].second_start ? 0 : kinds_rows - 1;
        eight_of(kinds_quant, kinds + kind * row_bytes(kinds_quant, columns), columns, group, added);
        EACH v[j] += added[j];
    }
    for (int j = 0; j < 8 && 8 * group + j < columns; j++) to[(size_t)index * columns + 8 * group + j] = v[j];
}

// to[o] = from[outputs[o]].
//
// grid (width / 256, outputs), 256 threads.
KERNEL gather(Batch batch, const float *from, float *to, int width) {
    follow();
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (row < batch.counts[1] && i < width) to[(size_t)row * width + i] = from[(size_t)batch.outputs[row] * width + i];
}
