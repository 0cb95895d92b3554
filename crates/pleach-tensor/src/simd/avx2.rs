//! AVX2 with FMA: two registers a vector.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "a value of `Avx2` exists only where the machine has AVX2 and FMA; pointers are as the trait asks"
)]

use std::arch::x86_64::{
    __m256, __m256i, _CMP_EQ_OQ, _CMP_LT_OQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm256_add_epi32,
    _mm256_add_ps, _mm256_and_si256, _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_cmp_ps, _mm256_cvtepi32_ps, _mm256_cvtps_epi32, _mm256_div_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps,
    _mm256_or_si256, _mm256_permute2f128_ps, _mm256_round_ps, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_sqrt_ps, _mm256_srli_epi32, _mm256_storeu_ps,
    _mm256_sub_epi32, _mm256_sub_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
};

use super::{Body, LANES, Simd};

/// AVX2 with FMA.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

type V = [__m256; 2];

/// Enters `body` compiled for AVX2.
pub(super) fn run(body: impl Body) {
    #[target_feature(enable = "avx2,fma")]
    fn enter(body: impl Body) {
        body.run(Avx2(()));
    }
    assert!(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"), "this machine has no AVX2");
    unsafe { enter(body) }
}

/// Eight masks that begin at `MASKS[8 - n]` hold for the first `n` lanes.
const MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
fn first(n: usize) -> __m256i {
    unsafe { _mm256_loadu_si256(MASKS.as_ptr().add(8 - n).cast()) }
}

/// Eight rows of eight as columns.
#[inline(always)]
fn transpose(r: [__m256; 8]) -> [__m256; 8] {
    unsafe {
        let (mut pairs, mut fours, mut out) = (r, r, r);
        for i in 0..4 {
            pairs[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            pairs[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        for i in [0, 4] {
            fours[i] = _mm256_shuffle_ps::<0x44>(pairs[i], pairs[i + 2]);
            fours[i + 1] = _mm256_shuffle_ps::<0xee>(pairs[i], pairs[i + 2]);
            fours[i + 2] = _mm256_shuffle_ps::<0x44>(pairs[i + 1], pairs[i + 3]);
            fours[i + 3] = _mm256_shuffle_ps::<0xee>(pairs[i + 1], pairs[i + 3]);
        }
        for i in 0..4 {
            out[i] = _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]);
            out[i + 4] = _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]);
        }
        out
    }
}

macro_rules! lanewise {
    ($($name:ident = $intrinsic:ident;)*) => {
        $(#[inline(always)]
        fn $name(self, a: V, b: V) -> V {
            unsafe { [$intrinsic(a[0], b[0]), $intrinsic(a[1], b[1])] }
        })*
    };
}

impl Simd for Avx2 {
    const WIDE: bool = false;
    type V = V;
    type M = V;

    lanewise! {
        add = _mm256_add_ps;
        sub = _mm256_sub_ps;
        mul = _mm256_mul_ps;
        div = _mm256_div_ps;
        max = _mm256_max_ps;
        min = _mm256_min_ps;
    }

    #[inline(always)]
    fn splat(self, x: f32) -> V {
        unsafe { [_mm256_set1_ps(x); 2] }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> V {
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: V) {
        unsafe {
            _mm256_storeu_ps(to, v[0]);
            _mm256_storeu_ps(to.add(8), v[1]);
        }
    }
    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, n: usize) -> V {
        unsafe {
            if n < 8 {
                [_mm256_maskload_ps(from, first(n)), _mm256_set1_ps(0.0)]
            } else {
                [_mm256_loadu_ps(from), _mm256_maskload_ps(from.add(8), first(n - 8))]
            }
        }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, v: V, n: usize) {
        unsafe {
            if n < 8 {
                _mm256_maskstore_ps(to, first(n), v[0]);
            } else {
                _mm256_storeu_ps(to, v[0]);
                _mm256_maskstore_ps(to.add(8), first(n - 8), v[1]);
            }
        }
    }
    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
    }
    #[inline(always)]
    fn sqrt(self, a: V) -> V {
        unsafe { [_mm256_sqrt_ps(a[0]), _mm256_sqrt_ps(a[1])] }
    }
    #[inline(always)]
    fn lt(self, a: V, b: V) -> V {
        unsafe { [_mm256_cmp_ps::<_CMP_LT_OQ>(a[0], b[0]), _mm256_cmp_ps::<_CMP_LT_OQ>(a[1], b[1])] }
    }
    #[inline(always)]
    fn eq(self, a: V, b: V) -> V {
        unsafe { [_mm256_cmp_ps::<_CMP_EQ_OQ>(a[0], b[0]), _mm256_cmp_ps::<_CMP_EQ_OQ>(a[1], b[1])] }
    }
    #[inline(always)]
    fn select(self, mask: V, yes: V, no: V) -> V {
        unsafe { [_mm256_blendv_ps(no[0], yes[0], mask[0]), _mm256_blendv_ps(no[1], yes[1], mask[1])] }
    }
    #[inline(always)]
    fn round(self, a: V) -> V {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        unsafe { [_mm256_round_ps::<NEAREST>(a[0]), _mm256_round_ps::<NEAREST>(a[1])] }
    }
    #[inline(always)]
    fn transpose(self, rows: [V; LANES]) -> [V; LANES] {
        let mut columns = rows;
        for half in 0..2 {
            for part in 0..2 {
                let mut block = [rows[0][0]; 8];
                for i in 0..8 {
                    block[i] = rows[8 * part + i][half];
                }
                let block = transpose(block);
                for i in 0..8 {
                    columns[8 * half + i][part] = block[i];
                }
            }
        }
        columns
    }
    #[inline(always)]
    fn exp2_whole(self, a: V) -> V {
        unsafe {
            let mut powers = a;
            for i in 0..2 {
                let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(a[i]), _mm256_set1_epi32(127));
                powers[i] = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent));
            }
            powers
        }
    }
    #[inline(always)]
    fn split(self, a: V) -> (V, V) {
        unsafe {
            let (mut exponents, mut mantissas) = (a, a);
            for i in 0..2 {
                let bits = _mm256_castps_si256(a[i]);
                let exponent = _mm256_sub_epi32(_mm256_srli_epi32::<23>(bits), _mm256_set1_epi32(127));
                let mantissa = _mm256_or_si256(
                    _mm256_and_si256(bits, _mm256_set1_epi32(0x007f_ffff)),
                    _mm256_set1_epi32(0x3f80_0000),
                );
                exponents[i] = _mm256_cvtepi32_ps(exponent);
                mantissas[i] = _mm256_castsi256_ps(mantissa);
            }
            (exponents, mantissas)
        }
    }
}
