//! Lines through a region: the pieces of them that are inside, and uniform draws from these.

use crate::Rng;

/// Disjoint intervals of a line, ascending; the current point is at 0.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    intervals: Vec<(f64, f64)>,
}

impl Pieces {
    pub(super) fn new(low: f64, high: f64) -> Self {
        Self { intervals: vec![(low, high)] }
    }

    /// The smallest and the largest place.
    pub(super) fn ends(&self) -> (f64, f64) {
        let first = self.intervals.first().map_or(0.0, |piece| piece.0);
        (first, self.intervals.last().map_or(0.0, |piece| piece.1))
    }

    /// Keeps where `value + slope · t > 0`.
    pub(super) fn clip(&mut self, value: f64, slope: f64) {
        let root = -value / slope;
        if !root.is_finite() {
            return;
        }
        if slope > 0.0 {
            self.intervals.iter_mut().for_each(|piece| piece.0 = piece.0.max(root));
        } else {
            self.intervals.iter_mut().for_each(|piece| piece.1 = piece.1.min(root));
        }
        self.intervals.retain(|piece| piece.0 < piece.1);
    }

    /// Keeps where the cubic polynomial `Σ coefficients[k] t^k` is positive.
    pub(super) fn clip_cubic(&mut self, coefficients: [f64; 4]) {
        let [_, slope, square, cube] = coefficients;
        if square == 0.0 && cube == 0.0 {
            return self.clip(coefficients[0], slope);
        }
        let turns = quadratic_roots(3.0 * cube, 2.0 * square, slope);
        let value = |t: f64| ((cube * t + square) * t + slope) * t + coefficients[0];
        let mut kept: Vec<(f64, f64)> = Vec::with_capacity(self.intervals.len() + 1);
        let mut keep = |low: f64, high: f64| match kept.last_mut() {
            Some(last) if last.1 >= low => last.1 = high,
            _ if low < high => kept.push((low, high)),
            _ => {}
        };
        for &(low, high) in &self.intervals {
            // Between turns the polynomial is monotone.
            let mut start = low;
            for end in turns.into_iter().filter(|turn| low < *turn && *turn < high).chain([high]) {
                match (value(start) > 0.0, value(end) > 0.0) {
                    (true, true) => keep(start, end),
                    (true, false) => keep(start, root(value, start, end)),
                    (false, true) => keep(root(value, end, start), end),
                    (false, false) => {}
                }
                start = end;
            }
        }
        self.intervals = kept;
    }

    /// A uniform draw of what `accepts` takes, from brackets that shrink towards 0 after each miss
    /// (Neal 2003, *Slice sampling*, §4.1 and Figure 5), which leaves the uniform law on all that is
    /// accepted as it is; `None`, for staying at 0, after 64 misses.
    pub(super) fn draw(mut self, rng: &mut Rng, mut accepts: impl FnMut(f64) -> bool) -> Option<f64> {
        const MISSES: usize = 64;
        for _ in 0..MISSES {
            let total: f64 = self.intervals.iter().map(|piece| piece.1 - piece.0).sum();
            if total <= 0.0 {
                return None;
            }
            let mut rest = rng.unit() * total;
            let mut t = self.ends().1;
            for &(low, high) in &self.intervals {
                if rest < high - low {
                    t = low + rest;
                    break;
                }
                rest -= high - low;
            }
            if accepts(t) {
                return Some(t);
            }
            self.clip(t.abs(), 1.0_f64.copysign(-t));
        }
        None
    }
}

/// The real roots of `a t² + b t + c`, ascending; NaN for those that do not exist.
fn quadratic_roots(a: f64, b: f64, c: f64) -> [f64; 2] {
    let discriminant = b * b - 4.0 * a * c;
    if discriminant < 0.0 {
        return [f64::NAN; 2];
    }
    // The sum of two numbers of the same sign: nothing cancels.
    let q = -0.5 * (b + discriminant.sqrt().copysign(b));
    let (x, y) = (q / a, c / q);
    if x > y { [y, x] } else { [x, y] }
}

/// The last place found, from `inside` towards `outside`, at which a monotone function is positive.
fn root(value: impl Fn(f64) -> f64, mut inside: f64, mut outside: f64) -> f64 {
    const BISECTIONS: usize = 60;
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (inside + outside);
        if value(middle) > 0.0 {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn cubic_pieces_are_where_the_polynomial_is_positive() {
        let mut rng = Seed::new(2).rng(0);
        for case in 0..400 {
            let mut coefficients: [f64; 4] = std::array::from_fn(|_| rng.normal());
            if case % 4 == 0 {
                coefficients[3] = 0.0;
            }
            if case % 8 == 0 {
                coefficients[2] = 0.0;
            }
            let mut pieces = Pieces::new(-1.5, 1.0);
            pieces.clip_cubic(coefficients);
            for i in 0..=1000 {
                let t = -1.5 + 0.0025 * f64::from(i);
                let value =
                    ((coefficients[3] * t + coefficients[2]) * t + coefficients[1]) * t + coefficients[0];
                let is_inside = pieces.intervals.iter().any(|piece| piece.0 <= t && t <= piece.1);
                assert!(is_inside == (value > 0.0) || value.abs() < 1e-9, "{coefficients:?} at {t}");
            }
        }
    }

    #[test]
    fn shrinking_brackets_leave_the_uniform_law_as_it_is() {
        // Inside are [-1, -0.4] and [0.1, 0.5]; 0.2 of the line is the part [0.3, 0.5].
        let accepts = |x: f64| (-1.0..=-0.4).contains(&x) || (0.1..=0.5).contains(&x);
        let mut rng = Seed::new(3).rng(0);
        let (mut x, mut right) = (0.2, 0);
        for _ in 0..20_000 {
            let pieces = Pieces::new(-1.0 - x, 1.0 - x);
            x += pieces.draw(&mut rng, |t| accepts(x + t)).unwrap_or(0.0);
            right += usize::from(x > 0.3);
        }
        // The standard error of the part is 0.003 for independent draws, and 0.006 at most for these.
        assert!((right as f64 / 20_000.0 - 0.2).abs() < 0.03, "{right}");
    }
}
