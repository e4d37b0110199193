// The order of floats among whole numbers.
#pragma once

// A value as a number whose order is that of the values; both zeros are the same. Never 0.
static __device__ __forceinline__ u32 ordered(float value) {
    u32 bits = __float_as_uint(value + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
