//! How each storage type becomes the unsigned bytes, scales and minimums that the integer kernel reads: one file a
//! type.
//!
//! Written once over [`crate::vector::Vector`] for all instruction sets. The layouts are described in
//! `kauri_formats::quant`.

/// A loop over a few numbers, written out: so that each turn's places are known to the compiler, and sums stay in registers.
macro_rules! written_out {
    ($index:ident in [$($value:literal),*] $body:block) => {
        $({
            let $index = $value;
            $body
        })*
    };
}

pub(crate) use written_out;

/// The same, or a loop where that suits the instruction set better ([`crate::vector::Vector::IN_TURNS`]).
macro_rules! in_turns {
    ($vector:ident: $index:ident in [$($value:literal),*] $body:block) => {
        if const { $vector::IN_TURNS } {
            // The compiler would write out a number of turns that it knows.
            for $index in 0..std::hint::black_box([$($value),*].len()) $body
        } else {
            $crate::quant::written_out!($index in [$($value),*] $body);
        }
    };
}

mod halves;
mod iq1_m;
mod iq1_s;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
pub mod iq4_nl;
pub mod iq4_xs;
pub mod mxfp4;
mod nvfp4;
mod points;
mod q1_0;
mod q2_0;
pub mod q2_k;
pub mod q3_k;
pub mod q4_0;
pub mod q4_1;
pub mod q4_k;
pub mod q5_0;
pub mod q5_1;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;
mod scales;
mod tq1_0;
mod tq2_0;

pub use scales::unsigned;

use kauri_formats::Quant;

use crate::panel::Unpack;

/// What is to be done with the unpacker of a storage type that is known only at run time.
pub trait Visitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<U: Unpack>(self) -> Self::Output;
}

/// Calls `visitor` with the unpacker of `quant`, if its products are computed from bytes.
pub fn visit<V: Visitor>(quant: Quant, visitor: V) -> Option<V::Output> {
    Some(match quant {
        Quant::Q4_0 => visitor.visit::<q4_0::Q4_0>(),
        Quant::Q4_1 => visitor.visit::<q4_1::Q4_1>(),
        Quant::Q5_0 => visitor.visit::<q5_0::Q5_0>(),
        Quant::Q5_1 => visitor.visit::<q5_1::Q5_1>(),
        Quant::Q8_0 => visitor.visit::<q8_0::Q8_0>(),
        Quant::Q2_K => visitor.visit::<q2_k::Q2K>(),
        Quant::Q3_K => visitor.visit::<q3_k::Q3K>(),
        Quant::Q4_K => visitor.visit::<q4_k::Q4K>(),
        Quant::Q5_K => visitor.visit::<q5_k::Q5K>(),
        Quant::Q6_K => visitor.visit::<q6_k::Q6K>(),
        Quant::IQ2_XXS => visitor.visit::<iq2_xxs::Iq2Xxs>(),
        Quant::IQ2_XS => visitor.visit::<iq2_xs::Iq2Xs>(),
        Quant::IQ2_S => visitor.visit::<iq2_s::Iq2S>(),
        Quant::IQ3_XXS => visitor.visit::<iq3_xxs::Iq3Xxs>(),
        Quant::IQ3_S => visitor.visit::<iq3_s::Iq3S>(),
        Quant::IQ1_S => visitor.visit::<iq1_s::Iq1S>(),
        Quant::IQ1_M => visitor.visit::<iq1_m::Iq1M>(),
        Quant::IQ4_NL => visitor.visit::<iq4_nl::Iq4Nl>(),
        Quant::IQ4_XS => visitor.visit::<iq4_xs::Iq4Xs>(),
        Quant::TQ1_0 => visitor.visit::<tq1_0::Tq1_0>(),
        Quant::TQ2_0 => visitor.visit::<tq2_0::Tq2_0>(),
        Quant::MXFP4 => visitor.visit::<mxfp4::Mxfp4>(),
        Quant::NVFP4 => visitor.visit::<nvfp4::Nvfp4>(),
        Quant::Q1_0 => visitor.visit::<q1_0::Q1_0>(),
        Quant::Q2_0 => visitor.visit::<q2_0::Q2_0>(),
        Quant::F32
        | Quant::F16
        | Quant::BF16
        | Quant::F8_E4M3
        | Quant::I8
        | Quant::I16
        | Quant::I32
        | Quant::I64
        | Quant::F64 => return None,
    })
}
