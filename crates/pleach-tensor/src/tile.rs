//! Matrix products in registers: a few rows times 32 columns, along runs of a shared dimension.
//!
//! Everything that multiplies matrices is made of [`tile`]: its rows are read by broadcasting single
//! floats through one pointer a row, so that rows may lie anywhere, as the pixels under a filter do;
//! its columns come from a [panel](pack), where 32 of them lie side by side.
//! Sums are left folds over the shared dimension, in the order of the runs.

#![expect(unsafe_code, reason = "inner loops read and write by pointers")]

use crate::simd::{LANES, Simd};

/// Columns of a panel.
pub(crate) const COLUMNS: usize = 32;

/// A stretch of the shared dimension that is contiguous in the rows and in the panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    /// Where it begins in a row, in floats from the row's pointer.
    pub(crate) row: isize,
    /// Where it begins in the panel, in lines of [`COLUMNS`] floats.
    pub(crate) panel: usize,
    /// Its length.
    pub(crate) len: usize,
}

/// Where the sums of a tile begin.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    /// At zero.
    Zero,
    /// At these floats, one a column.
    Bias(*const f32),
    /// At what is in the output.
    Output,
}

/// The most rows of a tile.
#[inline(always)]
pub(crate) fn most_rows<S: Simd>() -> usize {
    if S::WIDE { 12 } else { 6 }
}

/// The rows of the next tile where `left` are left: few odd ones at the end.
#[inline(always)]
pub(crate) fn next_rows<S: Simd>(left: usize) -> usize {
    let most = most_rows::<S>();
    // 16 rows are 8 and 8 rather than 12 and 4.
    if left >= most && !(S::WIDE && left == 16) {
        most
    } else if left >= 8 && S::WIDE {
        8
    } else if left >= 4 {
        4
    } else if left >= 2 {
        2
    } else {
        1
    }
}

/// Computes `columns` ≤ 32 columns of up to 12 rows: `out[r][..] = start + Σ rows[r] · panel`.
///
/// # Safety
/// `rows` and `outs` hold `count` pointers, a number that [`next_rows`] gives; every run is readable
/// from every row and in the panel; `columns` floats are writable at every output.
#[expect(clippy::too_many_arguments, reason = "they are what a product is")]
#[inline(always)]
pub(crate) unsafe fn product<S: Simd>(
    s: S,
    count: usize,
    rows: &[*const f32; 12],
    runs: &[Run],
    panel: *const f32,
    start: Start,
    outs: &[*mut f32; 12],
    columns: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        macro_rules! tile {
            ($rows:literal) => {
                if S::WIDE && columns > LANES {
                    tile::<S, $rows, 2>(s, rows, runs, panel, start, outs, columns);
                } else {
                    tile::<S, $rows, 1>(s, rows, runs, panel, start, outs, columns.min(LANES));
                    if columns > LANES {
                        let outs = outs.map(|out| out.wrapping_add(LANES));
                        let start = match start {
                            Start::Bias(bias) => Start::Bias(bias.wrapping_add(LANES)),
                            other => other,
                        };
                        let panel = panel.add(LANES);
                        tile::<S, $rows, 1>(s, rows, runs, panel, start, &outs, columns - LANES);
                    }
                }
            };
        }
        match count {
            12 => tile!(12),
            8 => tile!(8),
            6 => tile!(6),
            4 => tile!(4),
            2 => tile!(2),
            _ => tile!(1),
        }
    }
}

/// `R` rows times `V` vectors of columns.
///
/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn tile<S: Simd, const R: usize, const V: usize>(
    s: S,
    rows: &[*const f32; 12],
    runs: &[Run],
    panel: *const f32,
    start: Start,
    outs: &[*mut f32; 12],
    columns: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[s.splat(0.0); V]; R];
        for v in 0..V {
            let left = columns.saturating_sub(v * LANES);
            if left == 0 {
                break;
            }
            match start {
                Start::Zero => {}
                Start::Bias(bias) => {
                    let bias = s.load_up_to(bias.add(v * LANES), left);
                    for sum in &mut sums {
                        sum[v] = bias;
                    }
                }
                Start::Output => {
                    for (sum, out) in sums.iter_mut().zip(outs) {
                        sum[v] = s.load_up_to(out.add(v * LANES), left);
                    }
                }
            }
        }
        let mut at = [std::ptr::null(); R];
        at.copy_from_slice(&rows[..R]);
        for run in runs {
            let mut line = panel.add(run.panel * COLUMNS);
            for k in run.row..run.row + run.len.cast_signed() {
                let mut columns = [s.splat(0.0); V];
                for (v, column) in columns.iter_mut().enumerate() {
                    *column = s.load(line.add(v * LANES));
                }
                for r in 0..R {
                    let x = s.splat(*at[r].offset(k));
                    for v in 0..V {
                        sums[r][v] = s.fma(x, columns[v], sums[r][v]);
                    }
                }
                line = line.add(COLUMNS);
            }
        }
        for (sum, out) in sums.iter().zip(outs) {
            for (v, &sum) in sum.iter().enumerate() {
                let left = columns.saturating_sub(v * LANES);
                if left > 0 {
                    s.store_up_to(out.add(v * LANES), sum, left);
                }
            }
        }
    }
}

/// Rows that lie at equal distances in memory.
#[derive(Clone, Copy)]
pub(crate) struct Rows<P> {
    /// The first float of the first row.
    pub(crate) at: P,
    /// Floats from a row to the next.
    pub(crate) stride: usize,
}

/// Computes `columns` ≤ 32 columns of `count` rows: `to[r][..] = start + Σ from[r] · panel`, along
/// the first `depth` floats of each row and lines of the panel.
///
/// # Safety
/// There are so many rows of so many floats, and so many lines; `columns` floats of every row of
/// `to` are writable.
#[inline(always)]
pub(crate) unsafe fn multiply<S: Simd>(
    s: S,
    [count, depth]: [usize; 2],
    from: Rows<*const f32>,
    panel: *const f32,
    start: Start,
    to: Rows<*mut f32>,
    columns: usize,
) {
    let runs = [Run { row: 0, panel: 0, len: depth }];
    let mut rows = [std::ptr::null(); 12];
    let mut outs = [std::ptr::null_mut(); 12];
    let mut row = 0;
    while row < count {
        let tile = next_rows::<S>(count - row);
        // SAFETY: as the caller promises.
        unsafe {
            for i in 0..tile {
                rows[i] = from.at.add((row + i) * from.stride);
                outs[i] = to.at.add((row + i) * to.stride);
            }
            product(s, tile, &rows, &runs, panel, start, &outs, columns);
        }
        row += tile;
    }
}

/// Rows and columns of a matrix in memory that a panel is packed from.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// The first float.
    pub(crate) from: *const f32,
    /// Lines: the shared dimension.
    pub(crate) lines: usize,
    /// Columns, up to [`COLUMNS`].
    pub(crate) columns: usize,
    /// Floats from a line to the next.
    pub(crate) line_stride: usize,
    /// Floats from a column to the next. One of the strides is 1.
    pub(crate) column_stride: usize,
}

/// Packs `lines` lines of 32 columns; columns that the source lacks are zero.
///
/// # Safety
/// The source is readable, and `lines` · 32 floats are writable at `panel`.
#[inline(always)]
pub(crate) unsafe fn pack<S: Simd>(s: S, source: Source, panel: *mut f32) {
    let Source { from, lines, columns, line_stride, column_stride } = source;
    // SAFETY: as the caller promises.
    unsafe {
        if column_stride == 1 {
            for line in 0..lines {
                for v in 0..2 {
                    let left = columns.saturating_sub(v * LANES);
                    let vector = if left == 0 {
                        s.splat(0.0)
                    } else {
                        s.load_up_to(from.add(line * line_stride + v * LANES), left)
                    };
                    s.store(panel.add(line * COLUMNS + v * LANES), vector);
                }
            }
            return;
        }
        // Sixteen lines of sixteen columns at a time.
        let mut line = 0;
        while line < lines {
            let height = LANES.min(lines - line);
            for v in 0..2 {
                let mut block = [s.splat(0.0); LANES];
                for (c, row) in block.iter_mut().enumerate() {
                    let column = v * LANES + c;
                    if column < columns {
                        *row = s.load_up_to(from.add(column * column_stride + line), height);
                    }
                }
                let block = s.transpose(block);
                for (l, &row) in block.iter().enumerate().take(height) {
                    s.store(panel.add((line + l) * COLUMNS + v * LANES), row);
                }
            }
            line += LANES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::simd::Body;

    struct Case<'a> {
        rows: usize,
        depth: usize,
        columns: usize,
        transposed: bool,
        a: &'a [f32],
        b: &'a [f32],
        bias: &'a [f32],
        out: &'a mut [f32],
    }

    impl Body for Case<'_> {
        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            let mut panel = vec![f32::NAN; self.depth * COLUMNS];
            let (line_stride, column_stride) =
                if self.transposed { (1, self.depth) } else { (self.columns, 1) };
            let source = Source {
                from: self.b.as_ptr(),
                lines: self.depth,
                columns: self.columns,
                line_stride,
                column_stride,
            };
            // SAFETY: slices have the sizes that their matrices say.
            unsafe { pack(s, source, panel.as_mut_ptr()) };
            let mut row = 0;
            while row < self.rows {
                let count = next_rows::<S>(self.rows - row);
                let mut rows = [std::ptr::null(); 12];
                let mut outs = [std::ptr::null_mut(); 12];
                for i in 0..count {
                    rows[i] = self.a[(row + i) * self.depth..].as_ptr();
                    outs[i] = self.out[(row + i) * self.columns..].as_mut_ptr();
                }
                // In two runs, the second continuing the sums of the first.
                let half = self.depth / 2;
                let first = [Run { row: 0, panel: 0, len: half }];
                let rest = [Run { row: half.cast_signed(), panel: half, len: self.depth - half }];
                let bias = Start::Bias(self.bias.as_ptr());
                // SAFETY: as above.
                unsafe {
                    product(s, count, &rows, &first, panel.as_ptr(), bias, &outs, self.columns);
                    let start = Start::Output;
                    product(s, count, &rows, &rest, panel.as_ptr(), start, &outs, self.columns);
                }
                row += count;
            }
        }
    }

    #[test]
    fn products_are_left_folds_on_every_set() {
        let number = |i: usize| (i as f32 * 0.37).sin();
        for (rows, depth, columns) in
            [(1, 1, 1), (5, 7, 32), (13, 40, 17), (16, 33, 16), (29, 18, 31), (12, 16, 3)]
        {
            for transposed in [false, true] {
                let a: Vec<f32> = (0..rows * depth).map(number).collect();
                let b: Vec<f32> = (0..depth * columns).map(|i| number(i + 999)).collect();
                let bias: Vec<f32> = (0..columns).map(|i| number(i + 77)).collect();
                let mut want = Vec::new();
                for row in 0..rows {
                    for column in 0..columns {
                        want.push((0..depth).fold(bias[column], |sum, k| {
                            let place = if transposed { column * depth + k } else { k * columns + column };
                            a[row * depth + k].mul_add(b[place], sum)
                        }));
                    }
                }
                for isa in Isa::available() {
                    let mut out = vec![f32::NAN; rows * columns];
                    let (a, b, bias) = (&a[..], &b[..], &bias[..]);
                    isa.run(Case { rows, depth, columns, transposed, a, b, bias, out: &mut out });
                    assert_eq!(out, want, "{isa} {rows}×{depth}×{columns} {transposed}");
                }
            }
        }
    }
}
