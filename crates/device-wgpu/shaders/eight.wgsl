// Eight neighbouring values of a row, and eight activations to meet them.

struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn dot_of(a: Eight, b: Eight) -> f32 {
    return dot(a.low, b.low) + dot(a.high, b.high);
}

fn scaled(scale: f32, low: vec4<u32>, high: vec4<u32>, less: f32) -> Eight {
    return Eight(scale * (vec4<f32>(low) - less), scale * (vec4<f32>(high) - less));
}

fn scaled_less(scale: f32, low: vec4<u32>, high: vec4<u32>, minimum: f32) -> Eight {
    return Eight(scale * vec4<f32>(low) - minimum, scale * vec4<f32>(high) - minimum);
}

// Eight activations of a row of `columns`; behind its end zeros.
fn inputs(at: u32, columns: u32, group: u32) -> Eight {
    let i = 8u * group;
    let start = at + i;
    if (columns % 8u == 0u) {
        return Eight(
            vec4<f32>(arena[start], arena[start + 1u], arena[start + 2u], arena[start + 3u]),
            vec4<f32>(arena[start + 4u], arena[start + 5u], arena[start + 6u], arena[start + 7u]),
        );
    }
    return Eight(
        vec4<f32>(input(start, i < columns), input(start + 1u, i + 1u < columns), input(start + 2u, i + 2u < columns), input(start + 3u, i + 3u < columns)),
        vec4<f32>(input(start + 4u, i + 4u < columns), input(start + 5u, i + 5u < columns), input(start + 6u, i + 6u < columns), input(start + 7u, i + 7u < columns)),
    );
}

fn input(at: u32, is_there: bool) -> f32 {
    if (is_there) {
        return arena[at];
    }
    return 0.0;
}

// The fifth bits of four neighbouring codes: the lowest four of `bits`.
fn fifth_bits(bits: u32) -> vec4<u32> {
    return ((vec4<u32>(bits) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u)) << vec4<u32>(4u);
}

const IQ4_LEVELS: vec4<u32> = vec4<u32>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);

// The levels that codes of IQ4_NL and IQ4_XS name: bytes of four words.
fn iq4_levels(codes: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(iq4_level(codes.x), iq4_level(codes.y), iq4_level(codes.z), iq4_level(codes.w));
}

fn iq4_level(code: u32) -> f32 {
    let levels = IQ4_LEVELS;
    return f32(extractBits(bitcast<i32>(levels[code / 4u]), 8u * (code % 4u), 8u));
}

const FP4_LEVELS: vec2<u32> = vec2<u32>(0x03020100u, 0x0c080604u);

// Twice the values of E2M1; the sign is the fourth bit.
fn fp4_levels(codes: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(fp4_level(codes.x), fp4_level(codes.y), fp4_level(codes.z), fp4_level(codes.w));
}

fn fp4_level(code: u32) -> f32 {
    let levels = FP4_LEVELS;
    let level = f32(extractBits(levels[(code / 4u) % 2u], 8u * (code % 4u), 8u));
    return select(level, -level, code >= 8u);
}

// 2^(exponent - 128). The smallest two are no numbers that every driver keeps: they are as good as zero.
fn power_of_two(exponent: u32) -> f32 {
    return select(0.0, bitcast<f32>((exponent - 1u) << 23u), exponent > 1u);
}

// The 6-bit scale and minimum of a sub-block out of the three words of the header of Q4_K and Q5_K.
fn affine(header: vec3<u32>, sub: u32) -> vec2<f32> {
    let shift = 8u * (sub % 4u);
    let low = header.x >> shift;
    let middle = header.y >> shift;
    let high = header.z >> shift;
    let first = vec2<u32>(low & 63u, middle & 63u);
    let later = vec2<u32>((high & 15u) | ((low >> 2u) & 48u), ((high >> 4u) & 15u) | ((middle >> 2u) & 48u));
    return vec2<f32>(select(later, first, sub < 4u));
}
