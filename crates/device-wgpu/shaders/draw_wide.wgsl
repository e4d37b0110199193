// Whole numbers of 96 bits, three words each, the lowest first: sums that are the same in any order.

fn added(a: vec3<u32>, b: vec3<u32>) -> vec3<u32> {
    let x = a.x + b.x;
    let y = a.y + b.y;
    let carry = select(0u, 1u, x < a.x);
    let y_carried = y + carry;
    return vec3<u32>(x, y_carried, a.z + b.z + select(0u, 1u, y < a.y) + select(0u, 1u, y_carried < y));
}

// Of two of which the second is not larger.
fn subtracted(a: vec3<u32>, b: vec3<u32>) -> vec3<u32> {
    let y = a.y - b.y;
    let borrow = select(0u, 1u, a.x < b.x);
    return vec3<u32>(a.x - b.x, y - borrow, a.z - b.z - select(0u, 1u, a.y < b.y) - select(0u, 1u, y < borrow));
}

fn is_less(a: vec3<u32>, b: vec3<u32>) -> bool {
    if (a.z != b.z) {
        return a.z < b.z;
    }
    if (a.y != b.y) {
        return a.y < b.y;
    }
    return a.x < b.x;
}

// Multiplied with a power of two, below 2^96.
fn raised(a: vec3<u32>, power: u32) -> vec3<u32> {
    var b = a;
    if (power >= 96u) {
        b = vec3<u32>(0u);
    } else if (power >= 64u) {
        b = vec3<u32>(0u, 0u, a.x);
    } else if (power >= 32u) {
        b = vec3<u32>(0u, a.x, a.y);
    }
    let bits = power % 32u;
    let over = (b >> vec3<u32>(1u)) >> vec3<u32>(31u - bits);
    return (b << vec3<u32>(bits)) | vec3<u32>(0u, over.x, over.y);
}

// Divided by a power of two, rounded down.
fn lowered(a: vec3<u32>, power: u32) -> vec3<u32> {
    var b = a;
    if (power >= 96u) {
        b = vec3<u32>(0u);
    } else if (power >= 64u) {
        b = vec3<u32>(a.z, 0u, 0u);
    } else if (power >= 32u) {
        b = vec3<u32>(a.y, a.z, 0u);
    }
    let bits = power % 32u;
    let over = (b << vec3<u32>(1u)) << vec3<u32>(31u - bits);
    return (b >> vec3<u32>(bits)) | vec3<u32>(over.y, over.z, 0u);
}

// Binary digits.
fn digits(a: vec3<u32>) -> u32 {
    if (a.z != 0u) {
        return 96u - countLeadingZeros(a.z);
    }
    if (a.y != 0u) {
        return 64u - countLeadingZeros(a.y);
    }
    return 32u - countLeadingZeros(a.x);
}

// A number with `below` behind its point, in parts of 2^64, as a double has it: to 53 binary digits, or to a whole number where those are fewer;
// of two that are equally near the even one.
fn rounded(a: vec3<u32>, below: vec2<u32>) -> vec3<u32> {
    let length = digits(a);
    let dropped = select(0u, length - 53u, length > 53u);
    let whole = lowered(a, dropped);
    // What is dropped, beside half of what its last digit is worth.
    let rest = subtracted(a, raised(whole, dropped));
    var is_above = false;
    var is_half = false;
    if (dropped == 0u) {
        is_above = below.y > 0x80000000u || (below.y == 0x80000000u && below.x != 0u);
        is_half = below.y == 0x80000000u && below.x == 0u;
    } else {
        let half = raised(vec3<u32>(1u, 0u, 0u), dropped - 1u);
        let has_more = (below.x | below.y) != 0u;
        is_above = is_less(half, rest) || (all(half == rest) && has_more);
        is_half = all(half == rest) && !has_more;
    }
    let up = select(0u, 1u, is_above || (is_half && (whole.x & 1u) == 1u));
    return raised(added(whole, vec3<u32>(up, 0u, 0u)), dropped);
}

fn product(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let first = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let second = (a & 0xffffu) * (b >> 16u) + (first & 0xffffu);
    return vec2<u32>((second << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (first >> 16u) + (second >> 16u));
}

// With the fourth word.
fn multiplied(a: vec3<u32>, b: u32) -> vec4<u32> {
    let low = product(a.x, b);
    let middle = product(a.y, b);
    let high = product(a.z, b);
    let upper = added(vec3<u32>(middle.x, high.x, high.y), vec3<u32>(low.y, middle.y, 0u));
    return vec4<u32>(low.x, upper);
}

// A number that is not negative times two to the power of `power`, rounded to a whole one; of two that are equally near the even one.
fn whole_of(x: f32, power: i32) -> vec3<u32> {
    let bits = bitcast<u32>(x);
    let mantissa = (bits & 0x7fffffu) | 0x800000u;
    let exponent = i32(bits >> 23u) - 150 + power;
    // A tiny number, which has another mantissa, is nothing here either way.
    if (bits < 0x800000u || exponent < -24) {
        return vec3<u32>(0u);
    }
    if (exponent >= 0) {
        return raised(vec3<u32>(mantissa, 0u, 0u), u32(exponent));
    }
    let down = u32(-exponent);
    let whole = mantissa >> down;
    let rest = mantissa - (whole << down);
    let half = 1u << (down - 1u);
    return vec3<u32>(whole + select(0u, 1u, rest > half || (rest == half && (whole & 1u) == 1u)), 0u, 0u);
}
