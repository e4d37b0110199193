// Makes the changes of each row, and keeps what its logits were where the first of a token is. grid (1, draws).

// A whole part of 24 binary digits, and the power of two that it is to be multiplied with.
struct Parts {
    mantissa: u32,
    power: i32,
}

// Of a number above zero.
fn parts(bits: u32) -> Parts {
    let mantissa = bits & 0x7fffffu;
    if (bits >= 0x800000u) {
        return Parts(mantissa | 0x800000u, i32(bits >> 23u) - 150);
    }
    let missing = countLeadingZeros(mantissa) - 8u;
    return Parts(mantissa << missing, -149 - i32(missing));
}

// A number above zero divided by another, rounded as processors do: what GPUs call division may be off by a few digits.
fn quotient(a: u32, b: u32) -> u32 {
    if (a == INFINITE || b == INFINITE) {
        return select(0u, INFINITE, a == INFINITE);
    }
    let dividend = parts(a);
    let divisor = parts(b);
    // 26 or 27 digits, the last of them set where more would follow.
    var digits = 0u;
    var rest = dividend.mantissa;
    for (var i = 0u; i < 26u; i++) {
        let fits = rest >= divisor.mantissa;
        digits = digits * 2u + select(0u, 1u, fits);
        rest = (rest - select(0u, divisor.mantissa, fits)) * 2u;
    }
    digits = digits * 2u + select(0u, 1u, rest != 0u);
    let power = dividend.power - divisor.power - 26;
    // Digits that there is no room for: of tiny numbers more.
    let length = 32 - i32(countLeadingZeros(digits));
    let dropped = u32(clamp(max(length - 24, -149 - power), 1, 31));
    let whole = digits >> dropped;
    let half = 1u << (dropped - 1u);
    let left = digits - (whole << dropped);
    let up = select(0u, 1u, left > half || (left == half && (whole & 1u) == 1u));
    let mantissa = whole + up;
    // Its leading digit adds one to the exponent; a tiny number has none.
    let exponent = power + i32(dropped) + 149;
    if (exponent >= 254) {
        return INFINITE;
    }
    return mantissa + (u32(exponent) << 23u);
}

fn is_no_number(bits: u32) -> bool {
    return (bits & 0x7fffffffu) > INFINITE;
}

// A logit behind a change.
fn changed(bits: u32, change: u32, by: u32) -> u32 {
    if (is_no_number(bits)) {
        return bits;
    }
    if (change >> 31u == 0u) {
        return bitcast<u32>(exactly(bitcast<f32>(bits) + bitcast<f32>(by)));
    }
    if (bits >> 31u == 0u && bits != 0u) {
        return quotient(bits, by);
    }
    return bitcast<u32>(exactly(bitcast<f32>(bits) * bitcast<f32>(by)));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let draw = group.y;
    let row = row_of(draw);
    let count = word_of(draw, CHANGES);
    let first = word_of(draw, FIRST_CHANGE);
    for (var i = thread; i < count; i += THREADS) {
        let at = args.changes + 2u * (first + i);
        let token = weights1[at] & 0x7fffffffu;
        if (i > 0u && (weights1[at - 2u] & 0x7fffffffu) == token) {
            continue;
        }
        var logit = logits[row.logits + token];
        kept[args.saved + first + i] = logit;
        for (var j = i; j < count; j++) {
            let next = args.changes + 2u * (first + j);
            if ((weights1[next] & 0x7fffffffu) != token) {
                break;
            }
            logit = changed(logit, weights1[next], weights1[next + 1u]);
        }
        logits[row.logits + token] = logit;
    }
}
