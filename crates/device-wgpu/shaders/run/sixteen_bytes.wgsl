// Sixteen bytes that begin at a multiple of two, in `weights$`.
fn sixteen$(at: u32) -> vec4<u32> {
    let index = at >> 2u;
    let words = vec4<u32>(weights$[index], weights$[index + 1u], weights$[index + 2u], weights$[index + 3u]);
    if ((at & 2u) == 0u) {
        return words;
    }
    return (words >> vec4<u32>(16u)) | (vec4<u32>(words.yzw, weights$[index + 4u]) << vec4<u32>(16u));
}
