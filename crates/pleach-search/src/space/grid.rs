//! Equally spaced floats.

/// The values `(origin + k · step) / scale` for `k` in `0..cells`.
///
/// For decimal ranges such as 0 to 1 by 0.1, `origin` and `step` are integers and `scale` is a
/// power of ten, so that each value is the float nearest to its decimal: 0.3, not
/// 0.30000000000000004.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    origin: f64,
    step: f64,
    scale: f64,
    pub(super) cells: u64,
}

impl Grid {
    #[expect(clippy::float_cmp, reason = "a step that changes nothing is meant")]
    pub(super) fn new(low: f64, high: f64, step: f64, max_cells: u64) -> Result<Self, String> {
        if !step.is_finite() || step <= 0.0 {
            return Err(format!("step must be a positive number, not {step:?}"));
        }
        let (origin, unit, scale) = decimal(low, high, step).unwrap_or((low, step, 1.0));
        // The margin counts a last value that rounding put just above `high`.
        let last = ((high * scale - origin) / unit + 1e-9).floor();
        if last >= max_cells as f64 {
            return Err("the range has more than 2^50 values; leave out step".into());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "last is in 0..2^50")]
        let cells = last as u64 + 1;
        if cells > 1 && low + step == low {
            return Err(format!("step {step:?} is lost in rounding beside {low:?}"));
        }
        Ok(Self { origin, step: unit, scale, cells })
    }

    pub(super) fn value(&self, cell: u64) -> f64 {
        (cell as f64 * self.step + self.origin) / self.scale + 0.0
    }

    /// The cell nearest to `x`.
    pub(super) fn cell(&self, x: f64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` clamps")]
        let cell = ((x * self.scale - self.origin) / self.step).round() as u64;
        cell.min(self.cells - 1)
    }

    /// The grid's value at `x`, which may be off by rounding only.
    pub(super) fn nearest(&self, x: f64) -> Result<f64, String> {
        let value = self.value(self.cell(x));
        if (x - value).abs() <= 1e-9 * self.step / self.scale {
            return Ok(value);
        }
        let (low, high) = (self.value(0), self.value(self.cells - 1));
        Err(format!("not one of {low:?}, {:?}, …, {high:?}", self.value(1.min(self.cells - 1))))
    }
}

/// `low` and `step` as integers over the same power of ten, if that is what they are.
#[expect(clippy::float_cmp, reason = "the same float is meant")]
fn decimal(low: f64, high: f64, step: f64) -> Option<(f64, f64, f64)> {
    let limit = (1_u64 << 53) as f64;
    let mut scale = 1.0;
    for _ in 0..=15 {
        let (origin, unit) = ((low * scale).round(), (step * scale).round());
        if origin.abs().max((high * scale).abs()) >= limit {
            return None;
        }
        if unit >= 1.0 && origin / scale == low && unit / scale == step {
            return Some((origin, unit, scale));
        }
        scale *= 10.0;
    }
    None
}
