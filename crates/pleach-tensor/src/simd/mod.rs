//! Sixteen floats at a time, with the same bits on every instruction set.
//!
//! A vector is sixteen `f32` on all of them: one register of AVX-512, two of AVX2, an array in
//! plain code. Every operation rounds as IEEE 754 asks, multiply-add rounds once, and nothing here
//! sums across a vector, so a kernel that is written once over [`Simd`] gives the same bits
//! wherever it runs.
//!
//! A kernel's loop nest is a [`Body`]; [`Isa::run`] enters it through a function that is compiled
//! for the instruction set. Everything below that entry is `#[inline(always)]`, and has no
//! closures, so that it is compiled for the set as well.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use std::fmt;

/// Floats in a vector.
pub(crate) const LANES: usize = 16;

/// An instruction set that kernels are compiled for. Results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Plain code; runs everywhere.
    Scalar,
    /// AVX2 with FMA.
    Avx2,
    /// AVX-512 F.
    Avx512,
}

impl Isa {
    /// The fastest set that this machine has.
    pub fn best() -> Isa {
        Isa::available().pop().unwrap_or(Isa::Scalar)
    }

    /// The sets that this machine has, the fastest last.
    pub fn available() -> Vec<Isa> {
        let mut sets = vec![Isa::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sets.push(Isa::Avx2);
                if is_x86_feature_detected!("avx512f") {
                    sets.push(Isa::Avx512);
                }
            }
        }
        sets
    }

    /// Runs `body` compiled for this set.
    ///
    /// # Panics
    /// If the machine does not have the set: `Cpu::new` refuses it before.
    pub(crate) fn run(self, body: impl Body) {
        match self {
            Isa::Scalar => body.run(scalar::Scalar),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::run(body),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::run(body),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => unreachable!("only x86-64 has {self}"),
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx-512",
        })
    }
}

/// The loop nest of a kernel, written once for all instruction sets.
pub(crate) trait Body {
    /// Runs it. Implementations are `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S);
}

/// Sixteen floats and what can be done with them.
///
/// A value of this type is proof that the machine has the instruction set.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// Whether a vector is one register and there are 32 of them, so that a tile of 12 × 2 vectors
    /// stays in registers; else 6 × 1 does.
    const WIDE: bool;
    /// Sixteen floats.
    type V: Copy;
    /// Sixteen truth values.
    type M: Copy;

    fn splat(self, x: f32) -> Self::V;
    /// # Safety
    /// `from` is valid for reading 16 floats.
    unsafe fn load(self, from: *const f32) -> Self::V;
    /// # Safety
    /// `to` is valid for writing 16 floats.
    unsafe fn store(self, to: *mut f32, v: Self::V);
    /// The first `n` < 16 floats; the others are zero.
    ///
    /// # Safety
    /// `from` is valid for reading `n` floats.
    unsafe fn load_first(self, from: *const f32, n: usize) -> Self::V;
    /// Writes the first `n` < 16 floats.
    ///
    /// # Safety
    /// `to` is valid for writing `n` floats.
    unsafe fn store_first(self, to: *mut f32, v: Self::V, n: usize);

    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a · b + c`, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a` where `a > b`, else `b`; so `b` where either is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a` where `a < b`, else `b`; so `b` where either is NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    fn sqrt(self, a: Self::V) -> Self::V;
    /// `a < b`; false where either is NaN.
    fn lt(self, a: Self::V, b: Self::V) -> Self::M;
    /// `a == b`; false where either is NaN.
    fn eq(self, a: Self::V, b: Self::V) -> Self::M;
    /// `yes` where the mask holds, else `no`.
    fn select(self, mask: Self::M, yes: Self::V, no: Self::V) -> Self::V;
    /// To the nearest whole number, to the even one of two.
    fn round(self, a: Self::V) -> Self::V;
    /// `2^a` for whole `a` in −126…127.
    fn exp2_whole(self, a: Self::V) -> Self::V;
    /// `(e, m)` with `a = m · 2^e` and `m` in `[1, 2)`, for normal positive `a`.
    fn split(self, a: Self::V) -> (Self::V, Self::V);

    /// Rows become columns.
    #[inline(always)]
    fn transpose(self, rows: [Self::V; LANES]) -> [Self::V; LANES] {
        let mut from = [0.0; LANES * LANES];
        let mut to = [0.0; LANES * LANES];
        let mut columns = rows;
        // SAFETY: both arrays hold 16 vectors.
        unsafe {
            for (i, &row) in rows.iter().enumerate() {
                self.store(from.as_mut_ptr().add(i * LANES), row);
            }
            for i in 0..LANES {
                for j in 0..LANES {
                    to[j * LANES + i] = from[i * LANES + j];
                }
            }
            for (i, column) in columns.iter_mut().enumerate() {
                *column = self.load(to.as_ptr().add(i * LANES));
            }
        }
        columns
    }

    /// The first `n` floats, up to all 16.
    ///
    /// # Safety
    /// `from` is valid for reading `min(n, 16)` floats.
    #[inline(always)]
    unsafe fn load_up_to(self, from: *const f32, n: usize) -> Self::V {
        // SAFETY: as the caller promises.
        unsafe { if n >= LANES { self.load(from) } else { self.load_first(from, n) } }
    }

    /// Writes the first `n` floats, up to all 16.
    ///
    /// # Safety
    /// `to` is valid for writing `min(n, 16)` floats.
    #[inline(always)]
    unsafe fn store_up_to(self, to: *mut f32, v: Self::V, n: usize) {
        // SAFETY: as the caller promises.
        unsafe { if n >= LANES { self.store(to, v) } else { self.store_first(to, v, n) } }
    }

    /// The floats as an array.
    #[inline(always)]
    fn array(self, v: Self::V) -> [f32; LANES] {
        let mut array = [0.0; LANES];
        // SAFETY: the array holds 16 floats.
        unsafe { self.store(array.as_mut_ptr(), v) };
        array
    }

    /// The sum of the lanes, always in the same order: neighbours at distance 8, 4, 2, 1.
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        let mut a = self.array(v);
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                a[i] += a[i + half];
            }
            half /= 2;
        }
        a[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes what every operation gives for `a`, `b`, `c` behind one another.
    struct All<'a> {
        a: &'a [f32; LANES],
        b: &'a [f32; LANES],
        c: &'a [f32; LANES],
        out: &'a mut Vec<f32>,
    }

    impl Body for All<'_> {
        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            // SAFETY: arrays of 16 floats.
            let (a, b, c) =
                unsafe { (s.load(self.a.as_ptr()), s.load(self.b.as_ptr()), s.load(self.c.as_ptr())) };
            let one = s.splat(1.0);
            let whole = s.max(s.min(s.round(s.mul(b, s.splat(20.0))), s.splat(127.0)), s.splat(-126.0));
            let positive = s.add(s.mul(s.max(a, s.sub(s.splat(0.0), a)), s.splat(1e3)), s.splat(1e-30));
            let (e, m) = s.split(positive);
            for v in [
                s.add(a, b),
                s.sub(a, b),
                s.mul(a, b),
                s.div(a, b),
                s.fma(a, b, c),
                s.max(a, b),
                s.min(a, b),
                s.sqrt(a),
                s.select(s.lt(a, b), one, c),
                s.select(s.eq(a, c), one, b),
                s.round(s.mul(a, s.splat(7.5))),
                s.exp2_whole(whole),
                e,
                m,
            ] {
                self.out.extend(s.array(v));
            }
            self.out.push(s.sum(a));
            let mut rows = [a; LANES];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = s.add(b, s.splat(i as f32));
            }
            for column in s.transpose(rows) {
                self.out.extend(s.array(column));
            }
            for n in 0..=LANES {
                let mut partial = [9.0; LANES];
                // SAFETY: both arrays hold 16 floats.
                unsafe { s.store_up_to(partial.as_mut_ptr(), s.load_up_to(self.a.as_ptr(), n), n) };
                self.out.extend(partial);
            }
        }
    }

    #[test]
    fn every_set_gives_the_same_bits() {
        let mut a = [0.0f32; LANES];
        let mut b = [0.0f32; LANES];
        let mut c = [0.0f32; LANES];
        for i in 0..LANES {
            a[i] = ((i * 37 + 5) as f32 * 0.7123).sin() * 3.0;
            b[i] = ((i * 11 + 3) as f32 * 1.3177).cos() * 5.0;
            c[i] = if i % 3 == 0 { a[i] } else { i as f32 * 1e-3 };
        }
        (a[3], b[3]) = (f32::NAN, 1.0);
        (a[4], b[4]) = (1.0, f32::NAN);
        (a[5], b[5]) = (-0.0, 0.0);
        (a[6], b[6]) = (f32::INFINITY, -2.0);
        let run = |isa: Isa| {
            let mut out = Vec::new();
            isa.run(All { a: &a, b: &b, c: &c, out: &mut out });
            // The bits of a NaN may differ; that it is one may not.
            out.iter().map(|x| if x.is_nan() { 1 } else { x.to_bits() }).collect::<Vec<_>>()
        };
        let want = run(Isa::Scalar);
        for isa in Isa::available() {
            assert_eq!(run(isa), want, "{isa}");
        }
    }
}
