//! Dense linear algebra in row order: every sum is a left fold, so that results repeat bit for bit.

/// `Σ a_i b_i`.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Eight chains of fixed order: as repeatable as one, and several times as fast.
    let (blocks, rest) = a.as_chunks::<8>();
    let (other_blocks, other_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (x, y) in blocks.iter().zip(other_blocks) {
        for k in 0..8 {
            sums[k] += x[k] * y[k];
        }
    }
    let tail: f64 = rest.iter().zip(other_rest).map(|(x, y)| x * y).sum();
    ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) + tail
}

/// `y += alpha x`.
pub(crate) fn axpy(alpha: f64, x: &[f64], y: &mut [f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += alpha * x;
    }
}

/// `Σ (a_i − b_i)²`.
pub(crate) fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    let (blocks, rest) = a.as_chunks::<8>();
    let (other_blocks, other_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (x, y) in blocks.iter().zip(other_blocks) {
        for k in 0..8 {
            sums[k] += (x[k] - y[k]) * (x[k] - y[k]);
        }
    }
    let tail: f64 = rest.iter().zip(other_rest).map(|(x, y)| (x - y) * (x - y)).sum();
    ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) + tail
}

/// A lower triangular matrix `A`, row after row without the zeros.
///
/// A row depends on the rows before it alone, so a factor that grew row by row equals, bit for bit,
/// one that is computed at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Triangle {
    entries: Vec<f64>,
    len: usize,
}

impl Triangle {
    /// The Cholesky factor of a symmetric matrix, of which the lower triangle is read row by row
    /// from `matrix` (`n` entries a row); `None` if it is not positive definite.
    pub(crate) fn cholesky(matrix: &[f64], n: usize) -> Option<Self> {
        let mut factor = Self { entries: Vec::with_capacity(n * (n + 1) / 2), len: 0 };
        for i in 0..n {
            factor.push(&matrix[i * n..=i * n + i]).then_some(())?;
        }
        Some(factor)
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Row `i`, up to its diagonal entry.
    pub(crate) fn row(&self, i: usize) -> &[f64] {
        let start = i * (i + 1) / 2;
        &self.entries[start..=start + i]
    }

    /// Extends the factor by a row of the matrix (up to the diagonal). False, with the factor as it was,
    /// if the matrix is no longer positive definite.
    pub(crate) fn push(&mut self, row: &[f64]) -> bool {
        let n = self.len;
        debug_assert_eq!(row.len(), n + 1);
        let start = self.entries.len();
        self.entries.extend_from_slice(&row[..n]);
        for (j, entry) in row[..n].iter().enumerate() {
            let (above, pivot) = self.row(j).split_at(j);
            self.entries[start + j] = (entry - dot(&self.entries[start..start + j], above)) / pivot[0];
        }
        let own = &self.entries[start..];
        let rest = row[n] - dot(own, own);
        if !(rest.is_finite() && rest > 1e-300) {
            self.entries.truncate(start);
            return false;
        }
        self.entries.push(rest.sqrt());
        self.len += 1;
        true
    }

    /// Drops all rows from `n` on.
    pub(crate) fn truncate(&mut self, n: usize) {
        self.len = self.len.min(n);
        self.entries.truncate(self.len * (self.len + 1) / 2);
    }

    /// `A⁻¹ b`, of as many rows as `b` has.
    pub(crate) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut z = Vec::with_capacity(b.len());
        for i in 0..b.len() {
            let row = self.row(i);
            z.push((b[i] - dot(&row[..i], &z)) / row[i]);
        }
        z
    }

    /// `A⁻ᵀ b`.
    pub(crate) fn solve_transposed(&self, b: &[f64]) -> Vec<f64> {
        let mut z = b.to_vec();
        for i in (0..self.len).rev() {
            let row = self.row(i);
            z[i] /= row[i];
            let (before, own) = z.split_at_mut(i);
            axpy(-own[0], &row[..i], before);
        }
        z
    }

    /// `Σ ln A_ii`, half the logarithm of the determinant of the matrix.
    pub(crate) fn ln_diagonal(&self) -> f64 {
        (0..self.len).map(|i| self.row(i)[i].ln()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn a_factor_that_grew_equals_one_computed_at_once() {
        let n = 23;
        let mut rng = Seed::new(3).rng(0);
        let rows: Vec<Vec<f64>> = (0..n).map(|_| (0..n).map(|_| rng.normal()).collect()).collect();
        let mut matrix = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                matrix[i * n + j] = dot(&rows[i], &rows[j]) + if i == j { 0.5 } else { 0.0 };
            }
        }
        let whole = Triangle::cholesky(&matrix, n).unwrap();
        let mut grown = Triangle::default();
        (0..n).for_each(|i| assert!(grown.push(&matrix[i * n..=i * n + i])));
        assert_eq!(whole, grown);
        let b: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
        let x = whole.solve_transposed(&whole.solve(&b));
        for i in 0..n {
            // Residual of a well-conditioned system.
            assert!((dot(&matrix[i * n..(i + 1) * n], &x) - b[i]).abs() < 1e-9);
        }
        let before = grown.clone();
        assert!(!grown.push(&vec![1e3; n + 1]), "not positive definite");
        assert_eq!(before, grown);
    }
}
