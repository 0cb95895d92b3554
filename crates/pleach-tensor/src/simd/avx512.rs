//! AVX-512 F: one register a vector.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "a value of `Avx512` exists only where the machine has AVX-512 F; pointers are as the trait asks"
)]

use std::arch::x86_64::{
    __m512, __m512i, __mmask16, _CMP_EQ_OQ, _CMP_LT_OQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT,
    _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_castpd_ps, _mm512_castps_pd,
    _mm512_castps_si512, _mm512_castsi512_ps, _mm512_cmp_ps_mask, _mm512_cvtepi32_ps, _mm512_cvtps_epi32,
    _mm512_div_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_blend_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_or_si512,
    _mm512_roundscale_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_shuffle_f32x4, _mm512_slli_epi32,
    _mm512_sqrt_ps, _mm512_srli_epi32, _mm512_storeu_ps, _mm512_sub_epi32, _mm512_sub_ps, _mm512_unpackhi_pd,
    _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};

use super::{Body, Simd};

/// AVX-512 F.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

/// Enters `body` compiled for AVX-512.
pub(super) fn run(body: impl Body) {
    #[target_feature(enable = "avx512f,avx2,fma")]
    fn enter(body: impl Body) {
        body.run(Avx512(()));
    }
    assert!(is_x86_feature_detected!("avx512f"), "this machine has no AVX-512");
    unsafe { enter(body) }
}

#[inline(always)]
fn first(n: usize) -> __mmask16 {
    (1 << n) - 1
}

impl Simd for Avx512 {
    const WIDE: bool = true;
    type V = __m512;
    type M = __mmask16;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, v: __m512) {
        unsafe { _mm512_storeu_ps(to, v) }
    }
    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, n: usize) -> __m512 {
        unsafe { _mm512_maskz_loadu_ps(first(n), from) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, v: __m512, n: usize) {
        unsafe { _mm512_mask_storeu_ps(to, first(n), v) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn sqrt(self, a: __m512) -> __m512 {
        unsafe { _mm512_sqrt_ps(a) }
    }
    #[inline(always)]
    fn lt(self, a: __m512, b: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
    }
    #[inline(always)]
    fn eq(self, a: __m512, b: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) }
    }
    #[inline(always)]
    fn select(self, mask: __mmask16, yes: __m512, no: __m512) -> __m512 {
        unsafe { _mm512_mask_blend_ps(mask, no, yes) }
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }
    #[inline(always)]
    fn exp2_whole(self, a: __m512) -> __m512 {
        unsafe {
            let exponent = _mm512_add_epi32(_mm512_cvtps_epi32(a), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent))
        }
    }
    #[inline(always)]
    fn split(self, a: __m512) -> (__m512, __m512) {
        unsafe {
            let bits: __m512i = _mm512_castps_si512(a);
            let exponent = _mm512_sub_epi32(_mm512_srli_epi32::<23>(bits), _mm512_set1_epi32(127));
            let mantissa = _mm512_or_si512(
                _mm512_and_si512(bits, _mm512_set1_epi32(0x007f_ffff)),
                _mm512_set1_epi32(0x3f80_0000),
            );
            (_mm512_cvtepi32_ps(exponent), _mm512_castsi512_ps(mantissa))
        }
    }
    #[inline(always)]
    fn transpose(self, rows: [__m512; 16]) -> [__m512; 16] {
        unsafe {
            // Pairs of floats, then of pairs, then of quarters of a register.
            let mut pairs = rows;
            for i in 0..8 {
                pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
                pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
            }
            let mut fours = pairs;
            for i in 0..4 {
                for half in 0..2 {
                    let a = _mm512_castps_pd(pairs[4 * i + half]);
                    let b = _mm512_castps_pd(pairs[4 * i + half + 2]);
                    fours[4 * i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
                    fours[4 * i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
                }
            }
            // `fours[4 * i + j]` holds column `j + 4·q` of rows `4·i…` in its quarter `q`.
            let mut columns = fours;
            for j in 0..4 {
                let even01 = _mm512_shuffle_f32x4::<0x88>(fours[j], fours[4 + j]);
                let odd01 = _mm512_shuffle_f32x4::<0xdd>(fours[j], fours[4 + j]);
                let even23 = _mm512_shuffle_f32x4::<0x88>(fours[8 + j], fours[12 + j]);
                let odd23 = _mm512_shuffle_f32x4::<0xdd>(fours[8 + j], fours[12 + j]);
                columns[j] = _mm512_shuffle_f32x4::<0x88>(even01, even23);
                columns[8 + j] = _mm512_shuffle_f32x4::<0xdd>(even01, even23);
                columns[4 + j] = _mm512_shuffle_f32x4::<0x88>(odd01, odd23);
                columns[12 + j] = _mm512_shuffle_f32x4::<0xdd>(odd01, odd23);
            }
            columns
        }
    }
}
